//! A small HTTP client with one kept-alive connection. It uses little CPU, so that the stack under test gets most of
//! the CPU.

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Client {
    address: String,
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

impl Client {
    /// Connects to an address such as `127.0.0.1:3000`.
    pub async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the stack accepts connections");
        stream.set_nodelay(true).expect("the option is supported");
        Self { address: address.to_owned(), stream, buffer: Vec::with_capacity(16 * 1024) }
    }

    pub async fn get(&mut self, path: &str, token: &str) -> Response {
        self.send("GET", path, token, "").await
    }

    pub async fn post(&mut self, path: &str, token: &str, body: &Value) -> Response {
        self.send("POST", path, token, &body.to_string()).await
    }

    async fn send(&mut self, method: &str, path: &str, token: &str, body: &str) -> Response {
        let address = &self.address;
        let authorization =
            if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{authorization}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.expect("the stack reads the request");
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("the stack responds");
            assert!(read > 0, "the stack closed the connection");
            if let Some(response) = parse(&self.buffer) {
                return response;
            }
        }
    }
}

/// Parses a whole response. Returns `None` while a part is missing.
fn parse(bytes: &[u8]) -> Option<Response> {
    let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..head_end]).expect("the head is text");
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length: usize = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    })?;
    let body = bytes.get(head_end..head_end + length)?;
    Some(Response { status, body: body.to_vec() })
}
