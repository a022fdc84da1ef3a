//! Tracks the objects for which a thread works, to detect calls that would wait for themselves.

use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static HERE: RefCell<WorkOf> = const { RefCell::new(WorkOf(None)) };
}

/// The objects for which a thread works. The innermost object is first, and the object whose call
/// started the work is last. All threads that work on the same call have the same list.
#[derive(Clone, Debug, Default)]
pub struct WorkOf(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    object: usize,
    within: WorkOf,
}

impl WorkOf {
    /// Returns the objects for which the current thread is working.
    pub fn here() -> Self {
        HERE.with_borrow(Clone::clone)
    }

    /// Calls `work` on behalf of the object with this number.
    pub fn one<R>(object: usize, work: impl FnOnce() -> R) -> R {
        WorkOf(Some(Arc::new(Link { object, within: Self::here() }))).during(work)
    }

    /// Calls `work` on behalf of these objects.
    pub(super) fn during<R>(self, work: impl FnOnce() -> R) -> R {
        let _back = Back(HERE.replace(self));
        work()
    }

    /// Returns whether the object is in the list.
    pub fn includes(&self, object: usize) -> bool {
        let mut next = &self.0;
        while let Some(link) = next {
            if link.object == object {
                return true;
            }
            next = &link.within.0;
        }
        false
    }
}

/// Restores the previous list when it is dropped, even if the work panics.
struct Back(WorkOf);

impl Drop for Back {
    fn drop(&mut self) {
        HERE.set(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::driver::{Driver, in_background, with_threads};
    use tidegate_sync::Stop;

    #[test]
    fn a_thread_works_for_the_objects_whose_calls_it_is_in() {
        WorkOf::one(1, || {
            WorkOf::one(2, || {
                let here = WorkOf::here();
                assert!(here.includes(1) && here.includes(2) && !here.includes(3));
            });
            assert!(!WorkOf::here().includes(2));
            let caught = catch_unwind(|| WorkOf::one(3, || panic!("the work failed")));
            assert!(caught.is_err() && !WorkOf::here().includes(3));
        });
        assert!(!WorkOf::here().includes(1));
    }

    #[test]
    fn threads_that_share_work_do_it_for_the_same_objects() {
        let lasting = Driver::lasting(3, Stop::default(), false).unwrap();
        for driver in [Driver::new(3, Stop::default()), lasting] {
            let found = WorkOf::one(1, || {
                let of_pool = || driver.map((0..64).collect(), |_: i32| WorkOf::here().includes(1));
                let mut found = of_pool().unwrap();
                found.extend(with_threads(3, 1 << 20, of_pool).unwrap());
                let here = || WorkOf::here().includes(1);
                let (one, other) = driver.both(here, here);
                found.extend([one, other]);
                found.push(in_background(here).unwrap().recv().unwrap().unwrap());
                found.push(driver.in_background(here).unwrap().recv().unwrap().unwrap());
                found
            });
            assert_eq!(found, vec![true; found.len()]);
            assert!(
                !driver
                    .in_background(|| WorkOf::here().includes(1))
                    .unwrap()
                    .recv()
                    .unwrap()
                    .unwrap()
            );
        }
    }
}
