//! Tests of chat on a real Matrix homeserver, with a Matrix client.

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use touchline::config::Config;
use touchline::domain::{RoomId, Username};
use touchline::ports::chat::{Chat as _, ChatError, MatrixChat, NewRoom};
use touchline::ports::random::{Random, SystemRandom};
use touchline_testing::{Api as _, User};

use super::variable;
use crate::matrix_client::MatrixClient;
use crate::target::{HttpApi, eventually, unique_name};

async fn two_users() -> (User<HttpApi>, User<HttpApi>) {
    let app = HttpApi::under_test();
    (app.user("alice").await, app.user("bob").await)
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn the_credentials_of_a_login_work_in_a_matrix_client_until_logout() {
    let alice = HttpApi::under_test().user("alice").await;
    let client = MatrixClient(&alice);
    let account = client.get("account/whoami").await.expect(200);
    assert_eq!(account["user_id"], alice.chat_id());
    assert_eq!(account["device_id"], alice.credentials["device_id"]);
    let room = alice.creates_room(&unique_name()).private().await.room_id();
    let sync = client.get("sync?timeout=0").await.expect(200);
    let state = sync["rooms"]["join"][&room]["state"]["events"].as_array().into_iter().flatten();
    let timeline = sync["rooms"]["join"][&room]["timeline"]["events"].as_array().into_iter().flatten();
    let event = |kind: &str| state.clone().chain(timeline.clone()).find(|event| event["type"] == kind);
    assert_eq!(event("m.room.join_rules").unwrap()["content"]["join_rule"], "invite", "{sync}");
    assert_eq!(event("m.room.encryption").unwrap()["content"]["algorithm"], "m.megolm.v1.aes-sha2");
    assert_eq!(event("m.room.create").unwrap()["content"]["room_version"], "11");

    alice.logs_out().await.expect(200);
    let response =
        eventually(async || client.get("account/whoami").await, |response| response.status == 401).await;
    response.expect_matrix_error(401, "M_UNKNOWN_TOKEN");
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_former_username_stays_reserved_and_its_chat_logins_end() {
    let (alice, bob) = two_users().await;
    let client = MatrixClient(&alice);
    client.get("account/whoami").await.expect(200);
    let new = unique_name();
    alice.updates_profile().username(&new).await.expect(200);
    client.get("account/whoami").await.expect(401);
    bob.updates_profile().username(&alice.username).await.expect_error(422, "username_taken");
    let fresh = alice.requests_chat_credentials().await.expect_data(200);
    assert!(fresh["user_id"].as_str().unwrap().starts_with(&format!("@{new}:")), "{fresh}");
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn the_homeserver_knows_who_has_joined_a_room_in_a_matrix_client() {
    let alice = HttpApi::under_test().user("alice").await;
    let chat = chat(&variable("TOUCHLINE_TEST_HOMESERVER"));
    let username = Username::parse(&alice.username).unwrap();
    assert_eq!(chat.has_rooms(&username).await, Ok(false));
    let events = alice.lists_events().per_page(1).await.expect_data(200);
    let room = events[0]["chat_room_id"].as_str().unwrap();
    MatrixClient(&alice).post(&format!("join/{room}"), &json!({})).await.expect(200);
    assert_eq!(chat.has_rooms(&username).await, Ok(true));
    alice.updates_profile().username(&unique_name()).await.expect_error(409, "username_locked");
    let stranger = Username::parse(&unique_name()).unwrap();
    assert_eq!(chat.has_rooms(&stranger).await, Ok(false));
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_message_in_the_room_of_a_match_reaches_the_other_members() {
    let (alice, bob) = two_users().await;
    let events = alice.lists_events().per_page(1).await.expect_data(200);
    let room = events[0]["chat_room_id"].as_str().unwrap();
    alice.joins(room).await.expect(200);
    bob.joins(room).await.expect(200);
    let text = unique_name();
    MatrixClient(&alice).writes(room, &text).await;
    let messages =
        async || MatrixClient(&bob).get(&format!("rooms/{room}/messages?dir=b&limit=20")).await.expect(200);
    let has_arrived = |messages: &Value| {
        messages["chunk"].as_array().unwrap().iter().any(|event| event["content"]["body"] == *text)
    };
    eventually(messages, has_arrived).await;
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn the_room_of_a_match_can_be_renamed_any_number_of_times() {
    let alice = HttpApi::under_test().user("alice").await;
    let chat = chat(&variable("TOUCHLINE_TEST_HOMESERVER"));
    let random: &dyn Random = &SystemRandom;
    let (event, first, second) = (1 + random.below(1_000_000_000), unique_name(), unique_name());
    let room = chat.match_room(event, &first).await.unwrap();
    let name = async || {
        MatrixClient(&alice).post(&format!("join/{}", room.as_str()), &json!({})).await.expect(200);
        let path = format!("rooms/{}/state/m.room.name", room.as_str());
        MatrixClient(&alice).get(&path).await.expect(200)["name"].clone()
    };
    assert_eq!(name().await, *first);
    for _ in 0..2 {
        chat.rename_match_room(&room, &second).await.unwrap();
        assert_eq!(name().await, *second);
    }
    assert_eq!(chat.match_room(event, &first).await.unwrap(), room, "an existing room gets the name");
    assert_eq!(name().await, *first);
    let unknown = RoomId::parse(&format!("!{}:{}", unique_name(), "nowhere.example")).unwrap();
    let error = chat.rename_match_room(&unknown, &second).await.unwrap_err();
    assert!(matches!(error, ChatError::Forbidden | ChatError::NotFound), "{error}");
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_kick_or_a_ban_by_a_moderator_ends_the_membership() {
    let (alice, bob) = two_users().await;
    let room = alice.creates_room(&unique_name()).await.room_id();
    let has_joined = async || {
        let list = bob.lists_rooms().joined().await.expect_data(200);
        list.as_array().unwrap().iter().any(|listed| listed["room_id"] == *room)
    };
    for action in ["kick", "ban"] {
        bob.joins(&room).await.expect(200);
        eventually(has_joined, |joined| *joined).await;
        let body = json!({ "user_id": bob.chat_id() });
        MatrixClient(&alice).post(&format!("rooms/{room}/{action}"), &body).await.expect(200);
        eventually(has_joined, |joined| !joined).await;
    }
    bob.joins(&room).await.expect_error(403, "not_allowed");
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn blocked_users_are_ignored_beside_those_of_the_matrix_client() {
    let (alice, bob) = two_users().await;
    let client = MatrixClient(&alice);
    let path = format!("user/{}/account_data/m.ignored_user_list", alice.chat_id());
    let ignored = async || {
        let list = client.get(&path).await.expect(200);
        list["ignored_users"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    alice.blocks(bob.id).await.expect(200);
    assert_eq!(ignored().await, [bob.chat_id()]);
    let stranger = format!("@zz-{}:elsewhere.example", unique_name());
    let list = json!({ "ignored_users": { bob.chat_id(): {}, &stranger: {} } });
    client.put(&path, &list).await.expect(200);
    alice.unblocks(bob.id).await.expect(200);
    assert_eq!(ignored().await, [stranger.as_str()]);
    alice.blocks(bob.id).await.expect(200);
    let mut both = [bob.chat_id(), stranger.as_str()];
    both.sort_unstable();
    assert_eq!(ignored().await, both);

    // Synapse does not deliver the messages of ignored users.
    let room = bob.creates_room(&unique_name()).await.room_id();
    alice.joins(&room).await.expect(200);
    let (from_bob, from_alice) = (unique_name(), unique_name());
    MatrixClient(&bob).writes(&room, &from_bob).await;
    client.writes(&room, &from_alice).await;
    let sync = async || client.get("sync?timeout=0").await.expect(200).to_string();
    let sync = eventually(sync, |sync| sync.contains(&from_alice)).await;
    assert!(!sync.contains(&from_bob), "{sync}");
}

async fn moderate(action: &str, mut fields: Value) -> Value {
    fields["operator"] = "the tests".into();
    fields["reason"] = "A test.".into();
    HttpApi::under_test().invoke("moderation", &json!({ action: fields })).await
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_suspended_user_is_logged_out_of_chat() {
    let (alice, bob) = two_users().await;
    MatrixClient(&bob).get("account/whoami").await.expect(200);
    assert_eq!(moderate("suspend", json!({ "user_id": bob.id })).await["complete"], true);
    MatrixClient(&bob).get("account/whoami").await.expect_matrix_error(401, "M_UNKNOWN_TOKEN");
    MatrixClient(&alice).get("account/whoami").await.expect(200);
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_removed_room_is_closed_on_the_homeserver() {
    let app = HttpApi::under_test();
    let (alice, bob) = two_users().await;
    let carol = app.user("carol").await;
    for is_private in [false, true] {
        let create = alice.creates_room(&unique_name());
        let room = if is_private { create.private() } else { create }.await.room_id();
        alice.invites_to(&room).user(bob.id).await.expect(200);
        bob.joins(&room).await.expect(200);
        alice.invites_to(&room).user(carol.id).await.expect(200);
        let has_joined = async |user: &User<HttpApi>| {
            let joined = MatrixClient(user).get("joined_rooms").await.expect(200);
            joined["joined_rooms"].as_array().unwrap().contains(&json!(room))
        };
        assert!(has_joined(&alice).await && has_joined(&bob).await);
        for _ in 0..2 {
            let removed = moderate("remove_room", json!({ "room_id": room })).await;
            assert_eq!(removed["complete"], true, "{removed}");
        }
        for user in [&alice, &bob, &carol] {
            assert!(!has_joined(user).await, "{}", user.username);
            let join = MatrixClient(user).post(&format!("join/{room}"), &json!({})).await;
            // Nobody is left in the room who could let others in.
            assert!([403, 404].contains(&join.status.as_u16()), "{}: {}", user.username, join.body);
            user.joins(&room).await.expect_error(404, "room_not_found");
        }
        let public = MatrixClient(&alice).get("publicRooms?limit=1000").await.expect(200);
        assert!(!public.to_string().contains(&room), "{public}");
    }
}

/// Returns the texts of all messages in a room that a user can read.
async fn messages(user: &User<HttpApi>, room: &str) -> Vec<String> {
    let page = MatrixClient(user).get(&format!("rooms/{room}/messages?dir=b&limit=100")).await.expect(200);
    let texts = page["chunk"].as_array().unwrap().iter().map(|event| event["content"]["body"].as_str());
    texts.flatten().map(str::to_owned).collect()
}

/// Returns which of these texts are somewhere in the homeserver's database.
fn in_database<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    let file = variable("TOUCHLINE_TEST_HOMESERVER_DATABASE");
    let mut bytes = std::fs::read(&file).expect("the database can be read");
    bytes.extend(std::fs::read(format!("{file}-wal")).unwrap_or_default());
    let contains = |text: &&&str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    texts.iter().filter(contains).copied().collect()
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_deleted_account_loses_its_messages_its_devices_and_its_memberships() {
    let app = HttpApi::under_test();
    let (alice, bob) = two_users().await;
    let (name, email) = (unique_name(), format!("{}@example.org", unique_name()));
    alice.updates_profile().name(&name).email(&email).date_of_birth("1987-03-29").await.expect(200);
    let room = bob.creates_room(&unique_name()).await.room_id();
    alice.joins(&room).await.expect(200);
    let (from_alice, from_bob) = (unique_name(), unique_name());
    // More than one page of messages.
    for n in 0..20 {
        MatrixClient(&alice).writes(&room, &format!("{from_alice} {n}")).await;
    }
    MatrixClient(&bob).writes(&room, &from_bob).await;
    assert_eq!(messages(&bob, &room).await.len(), 21);

    alice.requests_deletion().await.expect(200);
    let code = app.last_code(&alice.phone).await;
    alice.confirms_deletion(&code).await.expect(200);
    alice.views_profile().await.expect_error(401, "token_invalid");
    let left = eventually(async || messages(&bob, &room).await, |left| left.len() == 1).await;
    assert_eq!(left, [from_bob]);
    let client = MatrixClient(&alice);
    eventually(async || client.get("account/whoami").await.status, |status| *status == 401).await;
    let path = format!("rooms/{room}/joined_members");
    let members = async || MatrixClient(&bob).get(&path).await.expect(200)["joined"].to_string();
    eventually(members, |members| !members.contains(alice.chat_id())).await;
    // The account cannot be used again.
    let username = Username::parse(&alice.username).unwrap();
    let chat = chat(&variable("TOUCHLINE_TEST_HOMESERVER"));
    chat.log_in(&username, "DEVICE").await.unwrap_err();
    assert_eq!(chat.erase_user(&username).await, Ok(true), "a repeated deletion changes nothing");
    assert_eq!(in_database(&[&alice.phone, &alice.phone[1..], &name, &email, "1987-03-29"]), [""; 0]);
    assert_eq!(in_database(&[bob.chat_id()]), [bob.chat_id()]);
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn with_an_admin_token_synapse_deletes_the_messages() {
    let (alice, bob) = two_users().await;
    let admin = HttpApi::under_test().user("admiral").await;
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=30); \
                  db.execute('UPDATE users SET admin = 1 WHERE name = ?', [sys.argv[2]]); db.commit()";
    let database = variable("TOUCHLINE_TEST_HOMESERVER_DATABASE");
    let granted = Command::new("python3").args(["-c", script, &database, admin.chat_id()]).status();
    assert!(granted.unwrap().success());
    let room = bob.creates_room(&unique_name()).await.room_id();
    alice.joins(&room).await.expect(200);
    // One call deletes 200 messages itself, and Synapse the rest.
    for _ in 0..230 {
        MatrixClient(&alice).writes(&room, &unique_name()).await;
    }
    let token = admin.credentials["access_token"].as_str();
    let chat = chat_with_admin(&variable("TOUCHLINE_TEST_HOMESERVER"), None, token);
    let username = Username::parse(&alice.username).unwrap();
    assert_eq!(chat.erase_user(&username).await, Ok(false), "messages are left");
    let erased = eventually(async || chat.erase_user(&username).await, |erased| *erased == Ok(true)).await;
    assert_eq!(erased, Ok(true));
    assert_eq!(messages(&bob, &room).await, [""; 0]);
    MatrixClient(&alice).get("account/whoami").await.expect(401);
    assert_eq!(chat.erase_user(&username).await, Ok(true), "a repeated deletion changes nothing");
}

/// Returns a [`MatrixChat`], the type that production uses, for the homeserver at this URL. It has the token from
/// the registration file.
fn chat(url: &str) -> MatrixChat {
    chat_with(url, None)
}

fn chat_with(url: &str, token: Option<&str>) -> MatrixChat {
    chat_with_admin(url, token, None)
}

fn chat_with_admin(url: &str, token: Option<&str>, admin_token: Option<&str>) -> MatrixChat {
    let registration = std::fs::read_to_string(variable("TOUCHLINE_TEST_REGISTRATION")).unwrap();
    let field = |name: &str| {
        let mut lines = registration.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap().to_owned()
    };
    let config = Config::read(|variable| {
        Some(match variable {
            "CHAT_HOMESERVER_URL" => url.to_owned(),
            "CHAT_SERVER_NAME" => field("io.touchline.server_name"),
            "CHAT_AS_TOKEN" => token.map_or_else(|| field("as_token"), str::to_owned),
            "CHAT_ADMIN_TOKEN" => admin_token?.to_owned(),
            "SMS_PROVIDER" => "sns".into(),
            // On a busy machine, Synapse responds slowly.
            "CHAT_TIMEOUT_SECONDS" => "30".into(),
            "CODE_PEPPER" | "AWS_REGION" | "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => {
                "sixteen characters".into()
            }
            table if table.ends_with("_TABLE") => table.to_owned(),
            _ => return None,
        })
    });
    let chat = config.unwrap().chat;
    MatrixChat::new(chat.homeserver.as_ref().unwrap(), &chat.server)
}

/// Starts a proxy that drops the homeserver's first `losses` responses to createRoom. Returns the URL of the
/// proxy and a counter of the dropped responses.
async fn lossy_proxy(losses: u32) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let homeserver = variable("TOUCHLINE_TEST_HOMESERVER").replace("http://", "");
    let lost = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&lost);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (homeserver, count) = (homeserver.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(homeserver).await.unwrap();
                let (mut request, mut response) = ([0; 16_384], [0; 16_384]);
                let mut is_create_room = false;
                loop {
                    tokio::select! {
                        read = client.read(&mut request) => {
                            let Ok(length @ 1..) = read else { return };
                            is_create_room = request[..length].windows(11).any(|word| word == b"/createRoom");
                            server.write_all(&request[..length]).await.unwrap();
                        }
                        read = server.read(&mut response) => {
                            let Ok(length @ 1..) = read else { return };
                            if is_create_room && count.load(Ordering::SeqCst) < losses {
                                count.fetch_add(1, Ordering::SeqCst);
                                return;
                            }
                            client.write_all(&response[..length]).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    (url, lost)
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_lost_response_does_not_create_a_second_room() {
    let alice = HttpApi::under_test().user("alice").await;
    let client = MatrixClient(&alice);
    let username = Username::parse(&alice.username).unwrap();
    for losses in [1, 2, 3] {
        let (url, lost) = lossy_proxy(losses).await;
        let chat = chat(&url);
        let (nonce, name) = (unique_name(), unique_name());
        let new = NewRoom { creator: &username, nonce: &nonce, name: &name, topic: "", is_private: false };
        let room = chat.create_room(new).await.unwrap();
        // One call sends createRoom at most twice.
        assert_eq!(lost.load(Ordering::SeqCst), losses.min(2), "the proxy drops responses");
        assert_eq!(chat.create_room(new).await.unwrap(), room, "a repeated call returns the same room");
        let joined = client.get("joined_rooms").await.expect(200);
        let mut with_this_name = 0;
        for room in joined["joined_rooms"].as_array().unwrap() {
            let path = format!("rooms/{}/state/m.room.name", room.as_str().unwrap());
            with_this_name += u32::from(client.get(&path).await.expect(200)["name"] == *name);
        }
        assert_eq!(with_this_name, 1);
    }
}

#[tokio::test]
#[ignore = "needs Synapse: run tests/real-components"]
async fn a_token_that_the_homeserver_rejects_gives_an_error_that_says_so() {
    let chat = chat_with(&variable("TOUCHLINE_TEST_HOMESERVER"), Some("not-the-token-of-the-file"));
    let unknown = Username::parse(&unique_name()).unwrap();
    let error = chat.log_in(&unknown, "DEVICE").await.unwrap_err();
    assert_eq!(error, ChatError::Unavailable("the homeserver rejects our token".into()));
}

/// The process of the homeserver. A test can freeze, stop and restart it.
struct Homeserver {
    pid: String,
    command: Vec<String>,
    url: String,
    restarted: Option<Child>,
}

impl Homeserver {
    fn running() -> Self {
        let pid = variable("TOUCHLINE_TEST_HOMESERVER_PID");
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("the process runs");
        let command = command.split_terminator('\0').map(str::to_owned).collect();
        Self { pid, command, url: variable("TOUCHLINE_TEST_HOMESERVER"), restarted: None }
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.pid]).status().unwrap().success());
    }

    async fn is_up(&self) -> bool {
        let response = reqwest::get(format!("{}/_matrix/client/versions", self.url));
        timeout(Duration::from_secs(2), response).await.is_ok_and(|response| response.is_ok())
    }

    async fn stop(&self) {
        self.signal("-KILL");
        eventually(async || self.is_up().await, |up| !up).await;
    }

    async fn restart(&mut self) {
        let started = Command::new(&self.command[0]).args(&self.command[1..]).spawn();
        self.restarted = Some(started.expect("the homeserver starts"));
        eventually(async || self.is_up().await, |up| *up).await;
    }
}

impl Drop for Homeserver {
    fn drop(&mut self) {
        if let Some(child) = &mut self.restarted {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Checks that a login succeeds and that chat requests fail with 503 while the homeserver is down.
async fn check_without_chat(user: &User<HttpApi>, room: &str) {
    let app = HttpApi::under_test();
    let code = app.anonymous().receives_code(&user.phone).await;
    let login = app.anonymous().verifies_code(&user.phone, &code);
    // The API waits two seconds for the homeserver; the rest of a login takes milliseconds.
    let login = timeout(Duration::from_secs(4), login).await.expect("the login is in time").expect(200);
    assert_eq!(login["data"]["matrix_credentials"], Value::Null);
    assert!(login["message"].as_str().unwrap().contains("Chat is not available"), "{login}");
    let user = app.with_token(login["data"]["token"].as_str().unwrap());
    user.creates_room("Nowhere").await.expect_error(503, "chat_unavailable");
    user.joins(room).await.expect_error(503, "chat_unavailable");
    user.requests_chat_credentials().await.expect_error(503, "chat_unavailable");
}

async fn check_with_chat(user: &User<HttpApi>, room: &str) {
    let fresh = user.requests_chat_credentials().await.expect_data(200);
    assert_eq!(fresh["user_id"], user.chat_id());
    MatrixClient(user).get("account/whoami").await.expect(200);
    let joined = user.joins(room).await;
    assert!([200, 409].contains(&joined.status.as_u16()), "{}", joined.body);
}

/// Must run alone and last, because the other tests need the homeserver.
#[tokio::test]
#[ignore = "needs Synapse to itself: run tests/real-components"]
async fn outage_of_the_homeserver_fails_chat_requests_but_not_logins() {
    let (alice, bob) = two_users().await;
    let room = bob.creates_room(&unique_name()).await.room_id();
    let mut homeserver = Homeserver::running();
    homeserver.signal("-STOP");
    check_without_chat(&alice, &room).await;
    homeserver.signal("-CONT");
    eventually(async || homeserver.is_up().await, |up| *up).await;
    check_with_chat(&alice, &room).await;

    homeserver.stop().await;
    check_without_chat(&alice, &room).await;
    homeserver.restart().await;
    check_with_chat(&alice, &room).await;
    // The failed requests created no rooms.
    assert_eq!(alice.lists_rooms().search("nowhere").await.expect_data(200), json!([]));
}

#[tokio::test]
#[ignore = "needs the registration file: run tests/real-components"]
async fn a_homeserver_without_login_for_application_services_gives_an_error_that_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut request = [0; 16_384];
            let _ = client.read(&mut request).await;
            let body = json!({ "errcode": "M_APPSERVICE_LOGIN_UNSUPPORTED", "error": "Use the other way." });
            let body = body.to_string();
            let response = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = client.write_all(response.as_bytes()).await;
        }
    });
    let unknown = Username::parse("nobody.at.all").unwrap();
    let error = chat(&url).log_in(&unknown, "DEVICE").await.unwrap_err();
    assert_eq!(error, ChatError::LoginUnsupported);
    assert!(error.to_string().contains("docs/chat.md"), "{error}");
}
