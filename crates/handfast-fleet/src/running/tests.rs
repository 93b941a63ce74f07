//! The task, on a bus whose connection the test breaks.

use handfast_bus::{Fault, Later, Local, Purpose};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::secret::tests::secret;

/// A bus inside the process with a connection that can be lost.
struct Breakable {
    local: Local,
    connected: watch::Receiver<bool>,
}

impl Bus for Breakable {
    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Later<'a, Result<(), Fault>> {
        self.local.publish(subject, payload)
    }

    fn request<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        timeout: Duration,
    ) -> Later<'a, Result<Bytes, Fault>> {
        self.local.request(subject, payload, timeout)
    }

    fn subscribe<'a>(&'a self, pattern: &'a str) -> Later<'a, Result<Feed, Fault>> {
        self.local.subscribe(pattern)
    }

    fn limit(&self) -> usize {
        self.local.limit()
    }

    fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }

    fn until<'a>(&'a self, connected: bool) -> Later<'a, ()> {
        let mut state = self.connected.clone();
        Box::pin(async move {
            state.wait_for(|is| *is == connected).await.expect("the test has the sender");
        })
    }

    fn place(&self) -> &str {
        "nats://bus:4222"
    }

    fn flush(&self) -> Later<'_, ()> {
        self.local.flush()
    }
}

mod seconds {
    use super::*;

    /// Well below [`BEAT`], at which the state was looked at before.
    const AT_ONCE: Duration = Duration::from_secs(2);

    async fn next_report(events: &mut Receiver<Event>) -> Report {
        let reading = async {
            loop {
                if let Event::Report(report) = events.recv().await.expect("the task runs") {
                    return report;
                }
            }
        };
        timeout(AT_ONCE, reading).await.expect("a report before the next beat")
    }

    #[tokio::test]
    async fn a_lost_bus_is_reported_at_once_and_so_is_its_return() {
        let (connection, connected) = watch::channel(true);
        let bus: Arc<dyn Bus> = Arc::new(Breakable { local: Local::default(), connected });
        let feed = bus.subscribe("hf.>").await.expect("it is local");
        let settings = Settings {
            bus: BusAddress { purpose: Purpose::Fleet, ..BusAddress::new("nats://bus:4222") },
            secret: secret(1),
            machine: "web-1".to_owned(),
            version: "1".to_owned(),
            orders: false,
        };
        let (events, mut received) = channel(REQUESTS);
        let (requests, for_task) = channel(REQUESTS);
        let mut task = Task::new(settings, "me".to_owned(), events);
        (task.bus, task.problem) = (Some((bus, feed)), None);
        let test = async {
            assert_eq!(next_report(&mut received).await.problem, None);
            connection.send_replace(false);
            let problem = next_report(&mut received).await.problem;
            assert_eq!(problem.as_deref(), Some("the connection to the bus nats://bus:4222 is lost"));
            connection.send_replace(true);
            assert_eq!(next_report(&mut received).await.problem, None);
            drop(requests);
        };
        tokio::join!(task.run(for_task), test);
    }
}
