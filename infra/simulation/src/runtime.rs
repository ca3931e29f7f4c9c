use tokio::runtime::{Builder, Runtime};

/// Creates a runtime with one thread and a paused clock.
pub fn new() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("the runtime starts")
}
