//! The present task as a waker, for libraries that wake by one.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Wake, Waker};

use handfast_leg::runtime::Runtime;
use handfast_net::engine::TaskHandle;

struct Task<R> {
    handle: TaskHandle,
    /// Without a runtime's own value: a waker is shared between threads.
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Wake for Task<R> {
    fn wake(self: Arc<Self>) {
        R::wake(self.handle);
    }
}

/// A waker of the present task, which wakes no other one when this has ended. **Cost**: an allocation.
pub(crate) fn waker<R: Runtime>() -> Waker {
    Waker::from(Arc::new(Task::<R> { handle: R::task(), runtime: PhantomData }))
}
