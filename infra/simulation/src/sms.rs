//! Text messages: some fail, some arrive although they were reported as failed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use touchline::domain::Phone;
use touchline::ports::sms::{Delivery, Sms, SmsFailed};

use crate::fault::Faults;
use crate::process::Process;

/// The phones of all people, with the last code that each of them received.
#[derive(Debug)]
pub struct Texts {
    codes: Mutex<BTreeMap<String, String>>,
    faults: Arc<Faults>,
}

impl Texts {
    #[must_use]
    pub fn new(faults: Arc<Faults>) -> Self {
        Self { codes: Mutex::default(), faults }
    }

    /// Returns the code in the last message to a phone.
    #[must_use]
    pub fn last_code(&self, phone: &str) -> Option<String> {
        self.codes.lock().expect("no holder of the lock panics").get(phone).cloned()
    }
}

impl Sms for Texts {
    fn provider(&self) -> &'static str {
        "simulated"
    }

    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            tokio::time::sleep(self.faults.dice().millis(10, 300)).await;
            let fails = self.faults.occurs("SmsFailed", 30);
            if !fails || self.faults.dice().once_in(2) {
                let code: String = text.chars().filter(char::is_ascii_digit).take(6).collect();
                self.codes.lock().expect("no holder of the lock panics").insert(to.as_str().to_owned(), code);
            }
            if let Some(process) = Process::current().filter(|_| fails) {
                process.stop_counting();
            }
            let outcome = if fails { Err(SmsFailed("Injected".into())) } else { Ok(()) };
            Delivery { attempts: 1, outcome }
        })
    }
}
