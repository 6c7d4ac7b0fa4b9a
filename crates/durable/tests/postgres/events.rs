//! The last event of `tracing` of each thread; none without that feature.

#[cfg(not(feature = "tracing"))]
pub(crate) fn record() {}

#[cfg(not(feature = "tracing"))]
pub(crate) fn take() -> String {
    String::new()
}

#[cfg(feature = "tracing")]
pub(crate) use recorder::{record, take};

#[cfg(feature = "tracing")]
mod recorder {
    use std::cell::Cell;
    use std::fmt::{Debug, Write};
    use std::sync::Once;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::set_global_default;
    use tracing::{Event, Metadata, Subscriber};

    thread_local! {
        static LAST: Cell<String> = const { Cell::new(String::new()) };
    }

    /// Records the events of this process from now on.
    pub(crate) fn record() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| set_global_default(Recorder).unwrap());
    }

    /// Takes the last event of this thread.
    pub(crate) fn take() -> String {
        LAST.take()
    }

    struct Recorder;

    impl Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "tourbillon_durable"
        }

        fn event(&self, event: &Event<'_>) {
            let mut text = Text(String::new());
            event.record(&mut text);
            LAST.set(text.0);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            unreachable!("the library has events alone")
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Fields of an event.
    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, "{field}={value:?} ").unwrap();
        }
    }
}
