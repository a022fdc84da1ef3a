//! The memory that is still available on the machine and in this process's control groups. When no
//! memory is left, the kernel kills a process. Linux only.

#[cfg(target_os = "linux")]
pub(super) use linux::left;

#[cfg(not(target_os = "linux"))]
pub(super) fn left() -> Option<usize> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::read_to_string;
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;

    /// Returns the number of bytes left, if the kernel reports it. Cached pages of files count as
    /// free, because the kernel drops these pages first.
    pub(in super::super) fn left() -> Option<usize> {
        static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
        let groups =
            GROUPS.get_or_init(|| groups(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup")));
        let of_machine = of_machine(&read("/proc/meminfo"));
        groups.iter().filter_map(Group::left).chain(of_machine).min()
    }

    fn read(path: impl AsRef<Path>) -> String {
        read_to_string(path).unwrap_or_default()
    }

    /// Returns the number that follows a name. In `text`, each line begins with a name.
    fn number(text: &str, name: &str) -> Option<usize> {
        let behind = text.lines().find_map(|line| line.strip_prefix(name))?;
        behind.trim_start_matches(':').split_whitespace().next()?.parse().ok()
    }

    fn of_machine(meminfo: &str) -> Option<usize> {
        let available = number(meminfo, "MemAvailable")?;
        Some((available + number(meminfo, "SwapFree").unwrap_or(0)).saturating_mul(1 << 10))
    }

    /// The process's control group, or an ancestor of that group.
    #[derive(Debug, PartialEq, Eq)]
    struct Group {
        folder: PathBuf,
        version: Version,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Version {
        One,
        Two,
    }

    /// Returns the groups listed in the contents of /proc/self/cgroup, and their ancestors.
    fn groups(mounted: &Path, of_process: &str) -> Vec<Group> {
        let mut found = Vec::new();
        for line in of_process.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let (version, root) = match controllers {
                "" if mounted.join("unified").is_dir() => (Version::Two, mounted.join("unified")),
                "" => (Version::Two, mounted.to_owned()),
                _ if controllers.split(',').any(|name| name == "memory") => {
                    (Version::One, mounted.join("memory"))
                }
                _ => continue,
            };
            let own = root.join(path.trim_start_matches('/'));
            // In a container, the process's own group may be mounted as the root, under a name that
            // only the host knows.
            let own = if own.is_dir() { &own } else { &root };
            let inside = |folder: &&Path| folder.starts_with(&root);
            found.extend(
                own.ancestors()
                    .take_while(inside)
                    .map(|folder| Group { folder: folder.to_owned(), version }),
            );
        }
        found
    }

    impl Group {
        /// Returns the number of bytes left, if there is a limit.
        fn left(&self) -> Option<usize> {
            let value = |name: &str| read(self.folder.join(name)).trim().parse::<usize>().ok();
            let (limit, used, of_files) = match self.version {
                Version::One => (
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    ["total_inactive_file ", "total_active_file ", "total_slab_reclaimable "],
                ),
                Version::Two => (
                    "memory.max",
                    "memory.current",
                    ["inactive_file ", "active_file ", "slab_reclaimable "],
                ),
            };
            let (limit, used) = (value(limit)?, value(used)?);
            let stat = read(self.folder.join("memory.stat"));
            let reclaimable: usize = of_files.iter().filter_map(|name| number(&stat, name)).sum();
            let swap = value("memory.swap.max")
                .map_or(0, |most| most.saturating_sub(value("memory.swap.current").unwrap_or(0)));
            Some(limit.saturating_sub(used.saturating_sub(reclaimable)).saturating_add(swap))
        }
    }

    #[cfg(test)]
    mod tests {
        use std::fs::{create_dir_all, remove_dir_all, write};

        use super::*;

        struct Folder(PathBuf);

        impl Folder {
            fn new(name: &str) -> Self {
                let folder =
                    std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
                create_dir_all(&folder).unwrap();
                Folder(folder)
            }

            fn file(&self, path: &str, text: &str) {
                let path = self.0.join(path);
                create_dir_all(path.parent().unwrap()).unwrap();
                write(path, text).unwrap();
            }
        }

        impl Drop for Folder {
            fn drop(&mut self) {
                remove_dir_all(&self.0).unwrap();
            }
        }

        fn least(folder: &Folder, of_process: &str) -> Option<usize> {
            groups(&folder.0, of_process).iter().filter_map(Group::left).min()
        }

        #[test]
        fn the_tightest_group_counts_less_what_files_take() {
            let folder = Folder::new("two");
            folder.file("memory.stat", "");
            folder.file("a/memory.max", "1000\n");
            folder.file("a/memory.current", "700\n");
            folder.file("a/memory.stat", "anon 500\nfile 200\ninactive_file 120\nactive_file 30\n");
            folder.file("a/b/memory.max", "max\n");
            folder.file("a/b/memory.current", "600\n");
            assert_eq!(least(&folder, "0::/a/b\n"), Some(1000 - 700 + 150));
            assert_eq!(least(&folder, "0::/not/here\n"), None, "the root has no limit");
            folder.file("a/b/memory.max", "500\n");
            assert_eq!(least(&folder, "0::/a/b\n"), Some(0));
            folder.file("a/b/memory.swap.max", "70\n");
            folder.file("a/b/memory.swap.current", "20\n");
            assert_eq!(least(&folder, "0::/a/b\n"), Some(50));
        }

        #[test]
        fn groups_of_the_first_version_have_other_names() {
            let folder = Folder::new("one");
            folder.file("memory/x/memory.limit_in_bytes", "900\n");
            folder.file("memory/x/memory.usage_in_bytes", "500\n");
            folder.file(
                "memory/x/memory.stat",
                "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 0\n",
            );
            assert_eq!(least(&folder, "8:pids:/\n4:cpu,memory:/x\n0::/\n"), Some(500));
        }

        #[test]
        fn the_machine_says_what_is_available() {
            let text = "MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable:       5 kB\nSwapTotal: 9 kB\nSwapFree: 2 kB\n";
            assert_eq!(of_machine(text), Some(7 << 10));
            assert_eq!(of_machine(""), None);
            assert!(left().is_some_and(|left| left > 0));
        }
    }
}
