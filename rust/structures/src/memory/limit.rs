//! The address space that remains within the process's limits, such as `ulimit -v`. Linux only.

/// Returns whether the process's address space is limited.
#[cfg(target_os = "linux")]
pub(super) fn is_set() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA].into_iter().any(|kind| {
        let none = libc::RLIM_INFINITY;
        let mut limit = libc::rlimit { rlim_cur: none, rlim_max: none };
        // SAFETY: the limit is written to a variable of its type.
        let is_known = unsafe { libc::getrlimit(kind, &raw mut limit) } == 0;
        is_known && limit.rlim_cur != none
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_set() -> bool {
    false
}

/// Returns how many more bytes of address space the process may use, if there is a limit.
#[cfg(target_os = "linux")]
pub(super) fn room() -> Option<usize> {
    if !is_set() {
        return None;
    }
    let (mut limits, mut sizes) = ([0; 4096], [0; 256]);
    let (limits, sizes) =
        (read("/proc/self/limits", &mut limits)?, read("/proc/self/statm", &mut sizes)?);
    room_of(limits, sizes)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn room() -> Option<usize> {
    None
}

/// Reads a short text file without allocating, because there may be no memory left.
#[cfg(target_os = "linux")]
fn read<'a>(path: &str, into: &'a mut [u8]) -> Option<&'a str> {
    use std::io::Read;
    let mut file = std::fs::File::open(path).ok()?;
    let mut len = 0;
    while len < into.len() {
        match file.read(&mut into[len..]).ok()? {
            0 => break,
            more => len += more,
        }
    }
    std::str::from_utf8(&into[..len]).ok()
}

/// Computes the remaining address space from the contents of `limits` and `statm`. In `limits`,
/// each limit is preceded by its name. `statm` contains page counts: the first is the size of the
/// whole address space, and the sixth is the size of the address space used for data.
#[cfg(target_os = "linux")]
fn room_of(limits: &str, sizes: &str) -> Option<usize> {
    const PAGE: usize = 4 << 10;
    let left = |(name, nth): (&str, usize)| {
        let limit: usize = limits
            .lines()
            .find_map(|line| line.strip_prefix(name))?
            .split_whitespace()
            .next()?
            .parse()
            .ok()?;
        let pages: usize = sizes.split_whitespace().nth(nth)?.parse().ok()?;
        Some(limit.saturating_sub(pages * PAGE))
    };
    [("Max address space", 0), ("Max data size", 5)].into_iter().filter_map(left).min()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_counts() {
        let limits = |data: &str, all: &str| {
            format!(
                "Limit  Soft Limit  Hard Limit  Units\nMax data size   {data}  unlimited bytes\nMax address space {all} 9 bytes\n"
            )
        };
        let sizes = "100 7 7 7 0 60 0\n";
        assert_eq!(room_of(&limits("unlimited", "unlimited"), sizes), None);
        assert_eq!(room_of(&limits("unlimited", "819200"), sizes), Some(409_600));
        assert_eq!(room_of(&limits("245761", "819200"), sizes), Some(1));
        assert_eq!(room_of(&limits("1", "819200"), sizes), Some(0));
        assert_eq!(room_of("", sizes), None);
        let mut text = [0; 4096];
        assert!(
            read("/proc/self/limits", &mut text)
                .is_some_and(|text| text.contains("Max address space"))
        );
    }
}
