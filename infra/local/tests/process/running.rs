use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::blocking::Client;
use serde_json::{Value, json};

pub fn touchline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_touchline"))
}

/// A local stack in a child process.
pub struct Running {
    pub process: Child,
    pub api: String,
    pub dynamodb: String,
    pub client: Client,
}

impl Running {
    /// Starts a local stack on free ports and reads the addresses from the banner.
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// Starts a local stack with more flags. It has no fans, so that it has few users and is ready at once.
    pub fn start_with(data: &Path, flags: &[&str]) -> Self {
        let (running, lines) = Self::start_and_read(data, &[&["--no-crowd"], flags].concat());
        // Without a reader, the process blocks when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        running
    }

    /// Starts a local stack. Also returns the lines that it prints after the banner.
    pub fn start_and_read(
        data: &Path,
        flags: &[&str],
    ) -> (Self, impl Iterator<Item = String> + Send + use<>) {
        let mut process = touchline()
            .args(["--port", "0", "--dynamodb-port", "0", "--data"])
            .arg(data)
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut address = |name: &str| {
            let line = lines
                .by_ref()
                .find_map(|line| Some(line.unwrap().trim().strip_prefix(name)?.trim().to_owned()));
            line.and_then(|line| Some(line.split(' ').next()?.to_owned()))
                .expect("the banner contains the address")
        };
        let (api, dynamodb) = (address("API"), address("DynamoDB"));
        (Self { process, api, dynamodb, client: Client::new() }, lines.map_while(Result::ok))
    }

    pub fn post(&self, path: &str, token: &str, body: &Value) -> (u16, Value) {
        self.try_post(path, token, body).expect("the stack responds")
    }

    /// Sends a request. Returns `None` if the stack was killed before it sent the whole response.
    pub fn try_post(&self, path: &str, token: &str, body: &Value) -> Option<(u16, Value)> {
        let request = self.client.post(format!("{}{path}", self.api)).bearer_auth(token).json(body);
        let response = request.send().ok()?;
        Some((response.status().as_u16(), response.json().ok()?))
    }

    pub fn get(&self, path: &str, token: &str) -> (u16, Value) {
        self.try_get(path, token).expect("the stack responds")
    }

    /// Like [`Self::try_post`].
    pub fn try_get(&self, path: &str, token: &str) -> Option<(u16, Value)> {
        let response = self.client.get(format!("{}{path}", self.api)).bearer_auth(token).send().ok()?;
        Some((response.status().as_u16(), response.json().ok()?))
    }

    /// Requests a code and reads it from the SMS log.
    pub fn request_code(&self, phone: &str) -> String {
        assert_eq!(self.post("/api/code/request", "", &json!({ "phone": phone })).0, 200);
        self.get("/api/logs/sms", "").1["data"][0]["code"].as_str().unwrap().to_owned()
    }

    /// Logs a user in; returns the token.
    pub fn log_in(&self, phone: &str) -> String {
        let code = self.request_code(phone);
        let (status, login) = self.post("/api/code/verify", "", &json!({ "phone": phone, "code": code }));
        assert_eq!(status, 200, "{login}");
        login["data"]["token"].as_str().unwrap().to_owned()
    }

    /// Calls `is_true` until it returns true, at most a thousand times.
    pub fn wait_until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        assert!((0..1_000).any(|_| is_true(self)), "waited for: {what}");
    }

    #[cfg(unix)]
    pub fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Running {
    /// Sends `SIGKILL`, so the stack ends without cleanup, as in a crash.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
