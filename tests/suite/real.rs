//! Against components that are not ours. `tests/real-components` brings them and runs these; without
//! them they fail rather than pass.

fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run tests/real-components"))
}

mod sns {
    //! Text messages.

    use clap::Parser as _;
    use reqwest::Client;
    use serde_json::{Value, json};
    use touchline_local::{LocalStack, Options};

    use super::address;
    use crate::target::phone;

    async fn stack_with_sns(url: &str) -> LocalStack {
        let options = Options::parse_from([
            "touchline",
            "--quiet",
            "--memory",
            "--port",
            "0",
            "--dynamodb-port",
            "0",
            "--sns",
            url,
            "--parameter",
            "Environment=testing",
            "--parameter",
            "SmsSenderId=Touchline",
        ]);
        LocalStack::start(&options).await.expect("a local stack")
    }

    #[tokio::test]
    #[ignore = "needs ministack: run tests/real-components"]
    async fn sns_takes_a_code_and_it_logs_somebody_in() {
        let sns = address("TOUCHLINE_TEST_SNS");
        let stack = stack_with_sns(&sns).await;
        let (client, api, phone) = (Client::new(), format!("http://{}", stack.api), phone());
        let post = async |path: &str, body: Value| -> Value {
            let response = client.post(format!("{api}{path}")).json(&body).send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            response.json().await.unwrap()
        };
        post("/api/code/request", json!({ "phone": phone })).await;

        let inbox: Value = client
            .get(format!("{sns}/_ministack/sns/sms-messages"))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let message = &inbox["sms_messages"][&phone][0];
        let attributes = &message["MessageAttributes"];
        assert_eq!(attributes["AWS.SNS.SMS.SMSType"]["StringValue"], "Transactional", "{message}");
        assert_eq!(attributes["AWS.SNS.SMS.SenderID"]["StringValue"], "Touchline", "{message}");
        assert_eq!(attributes["AWS.SNS.SMS.MaxPrice"]["StringValue"], "0.50", "{message}");
        let text = message["Message"].as_str().unwrap();
        let code = text.split(|c: char| !c.is_ascii_digit()).find(|word| word.len() == 6).unwrap();
        post("/api/code/verify", json!({ "phone": phone, "code": code })).await;

        let log = format!("{api}/api/logs/sms?phone={}", phone.replace('+', "%2B"));
        let log: Value = client.get(log).send().await.unwrap().json().await.unwrap();
        assert_eq!(log["data"][0]["provider"], "sns");
        assert_eq!(log["data"][0]["status"], "sent");
        assert_eq!(log["data"][0]["code"], code);
        stack.stop().await;
    }

    #[tokio::test]
    #[ignore = "needs ministack with AUTH=true: run tests/real-components"]
    async fn a_message_that_sns_refuses_is_logged_and_uses_nothing_up() {
        // It knows no user with our access key, so every call is refused, as a missing permission is on AWS.
        let stack = stack_with_sns(&address("TOUCHLINE_TEST_SNS_REFUSING")).await;
        let (client, api, phone) = (Client::new(), format!("http://{}", stack.api), phone());
        // More often than the limit allows to send.
        for _ in 0..7 {
            let request = client.post(format!("{api}/api/code/request")).json(&json!({ "phone": phone }));
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()["retry-after"], "1");
            assert_eq!(response.json::<Value>().await.unwrap()["code"], "sms_unavailable");
        }
        let log = format!("{api}/api/logs/sms?status=failed&phone={}", phone.replace('+', "%2B"));
        let log: Value = client.get(log).send().await.unwrap().json().await.unwrap();
        let rows = log["data"].as_array().unwrap();
        assert_eq!(rows.len(), 7);
        for row in rows {
            assert_eq!(row["status"], "failed");
            assert_eq!(row["error"], "InvalidClientTokenId");
            assert!(row.get("expires_at").is_none());
        }
        stack.stop().await;
    }
}

mod roles {
    //! What functions do, beside what their roles allow.

    use std::collections::{BTreeMap, BTreeSet};

    use touchline_stack::{TEMPLATE, Template, yaml};

    use super::address;
    use crate::policy::allowed;

    /// Which calls each function made is noted while the HTTP suite runs.
    #[test]
    #[ignore = "needs the calls of a run of the HTTP suite: run tests/real-components"]
    fn roles_allow_what_functions_do_and_nothing_else() {
        let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
        let noted =
            std::fs::read_to_string(address("TOUCHLINE_TEST_CALLS")).expect("a run of the HTTP suite");
        let suffix = |name: &str| name.rsplit('-').next().unwrap().to_owned();
        let logical: BTreeMap<String, &str> =
            stack.tables.iter().map(|table| (suffix(&table.name), table.logical_id.as_str())).collect();
        let mut done: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for line in noted.lines() {
            let [function, action, resource] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let (table, index) = resource.split_once('/').unwrap_or((resource, ""));
            let slash = if index.is_empty() { "" } else { "/" };
            let resource = format!("{}{slash}{index}", logical[&suffix(table)]);
            done.entry(function).or_default().insert(format!("{action} {resource}"));
        }
        let resources = yaml::parse(TEMPLATE).unwrap()["Resources"].clone();
        let mut wrong = Vec::new();
        for (id, resource) in resources.as_object().unwrap() {
            if resource["Type"] != "AWS::Serverless::Function" {
                continue;
            }
            let name = resource["Metadata"]["BuildProperties"]["Binary"].as_str().unwrap();
            let (allowed, done) = (allowed(&resource["Properties"]), done.remove(name).unwrap_or_default());
            wrong.extend(
                done.difference(&allowed).map(|call| format!("{id} does {call}, which is not allowed")),
            );
            wrong.extend(allowed.difference(&done).map(|call| format!("{id} may {call}, and does not")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(done.is_empty(), "calls of unknown functions: {done:?}");
    }
}

mod matrix {
    //! A real Matrix homeserver, as a Matrix client sees it.

    use std::process::{Child, Command};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use reqwest::Method;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;
    use touchline::config::Config;
    use touchline::domain::Username;
    use touchline::ports::chat::{Chat as _, ChatError, MatrixChat, NewRoom};

    use super::address;
    use crate::http::chat::{act, made};
    use crate::target::{Fan, Target, eventually, name};

    #[tokio::test]
    #[ignore = "needs Synapse: run tests/real-components"]
    async fn credentials_of_a_login_work_in_a_matrix_client_until_logout() {
        let ada = Target::fan().await;
        let me = ada.ask_homeserver(Method::GET, "account/whoami", None).await.expect(200);
        assert_eq!(me["user_id"], ada.chat_id());
        assert_eq!(me["device_id"], ada.login["matrix_credentials"]["device_id"]);
        let room = made(&ada, &name(), true).await;
        let sync = ada.ask_homeserver(Method::GET, "sync?timeout=0", None).await.expect(200);
        let state = sync["rooms"]["join"][&room]["state"]["events"].as_array().into_iter().flatten();
        let timeline = sync["rooms"]["join"][&room]["timeline"]["events"].as_array().into_iter().flatten();
        let event = |kind: &str| state.clone().chain(timeline.clone()).find(|event| event["type"] == kind);
        assert_eq!(event("m.room.join_rules").unwrap()["content"]["join_rule"], "invite", "{sync}");
        assert_eq!(event("m.room.encryption").unwrap()["content"]["algorithm"], "m.megolm.v1.aes-sha2");
        assert_eq!(event("m.room.create").unwrap()["content"]["room_version"], "11");

        ada.post("/api/auth/logout", &json!({})).await.expect(200);
        let after = ada.ask_homeserver(Method::GET, "account/whoami", None).await;
        assert_eq!((after.status.as_u16(), &after.body["errcode"]), (401, &json!("M_UNKNOWN_TOKEN")));
    }

    /// A name that was known to the homeserver is nobody else's, and its logins end.
    #[tokio::test]
    #[ignore = "needs Synapse: run tests/real-components"]
    async fn a_former_name_stays_its_users_and_its_logins_end() {
        let (ada, bob) = (Target::fan().await, Target::fan().await);
        ada.ask_homeserver(Method::GET, "account/whoami", None).await.expect(200);
        let body = json!({ "username": name() });
        ada.post("/api/auth/update-user-info", &body).await.expect(200);
        assert_eq!(ada.ask_homeserver(Method::GET, "account/whoami", None).await.status, 401);
        let former = json!({ "username": ada.login["user"]["username"] });
        bob.post("/api/auth/update-user-info", &former).await.expect_error(422, "username_taken");
        let fresh = ada.post("/api/auth/chat/credentials", &json!({})).await.expect(200);
        let id = format!("@{}:", body["username"].as_str().unwrap());
        assert!(fresh["data"]["user_id"].as_str().unwrap().starts_with(&id), "{fresh}");
    }

    /// A message reaches the others, and a match's own room is one to talk in.
    #[tokio::test]
    #[ignore = "needs Synapse: run tests/real-components"]
    async fn people_talk_in_a_matchs_room() {
        let (ada, bob) = (Target::fan().await, Target::fan().await);
        let events = ada.get("/api/auth/events?per_page=1").await.expect(200);
        let room = events["data"][0]["chat_room_id"].as_str().unwrap();
        act(&ada, room, "join").await.expect(200);
        act(&bob, room, "join").await.expect(200);
        let text = name();
        let path = format!("rooms/{room}/send/m.room.message/{text}");
        let body = json!({ "msgtype": "m.text", "body": text });
        ada.ask_homeserver(Method::PUT, &path, Some(&body)).await.expect(200);
        let heard = async || {
            let path = format!("rooms/{room}/messages?dir=b&limit=20");
            bob.ask_homeserver(Method::GET, &path, None).await.expect(200)
        };
        let has = |messages: &Value| {
            messages["chunk"].as_array().unwrap().iter().any(|event| event["content"]["body"] == *text)
        };
        eventually(heard, has).await;
    }

    /// Somebody is thrown out by a moderator's Matrix client.
    #[tokio::test]
    #[ignore = "needs Synapse: run tests/real-components"]
    async fn a_kick_and_a_ban_reach_us() {
        let (ada, bob) = (Target::fan().await, Target::fan().await);
        let room = made(&ada, &name(), false).await;
        let joined = async |fan: &Fan| {
            let list = fan.get("/api/auth/chat-rooms?joined=true").await.expect(200);
            list["data"].as_array().unwrap().iter().any(|one| one["room_id"] == *room)
        };
        for verb in ["kick", "ban"] {
            act(&bob, &room, "join").await.expect(200);
            eventually(async || joined(&bob).await, |joined| *joined).await;
            let body = json!({ "user_id": bob.chat_id() });
            ada.ask_homeserver(Method::POST, &format!("rooms/{room}/{verb}"), Some(&body)).await.expect(200);
            eventually(async || joined(&bob).await, |joined| !joined).await;
        }
        act(&bob, &room, "join").await.expect_error(403, "not_allowed");
    }

    /// Our port on a way to the homeserver that loses answers.
    fn chat(url: &str) -> MatrixChat {
        chat_with(url, None)
    }

    fn chat_with(url: &str, token: Option<&str>) -> MatrixChat {
        let registration = std::fs::read_to_string(address("TOUCHLINE_TEST_REGISTRATION")).unwrap();
        let field = |name: &str| {
            let mut lines = registration.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap().to_owned()
        };
        let config = Config::read(|variable| {
            Some(match variable {
                "CHAT_HOMESERVER_URL" => url.to_owned(),
                "CHAT_SERVER_NAME" => field("io.touchline.server_name"),
                "CHAT_AS_TOKEN" => token.map_or_else(|| field("as_token"), str::to_owned),
                "SMS_PROVIDER" => "sns".into(),
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

    /// Passes requests on to the homeserver, and keeps the answers to the first so many createRoom for itself.
    async fn lossy(losses: u32) -> (String, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let homeserver = address("TOUCHLINE_TEST_HOMESERVER").replace("http://", "");
        let lost = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&lost);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (homeserver, count) = (homeserver.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(homeserver).await.unwrap();
                    let (mut asked, mut answer) = ([0; 16_384], [0; 16_384]);
                    let mut creating = false;
                    loop {
                        tokio::select! {
                            read = client.read(&mut asked) => {
                                let Ok(length @ 1..) = read else { return };
                                creating = asked[..length].windows(11).any(|word| word == b"/createRoom");
                                server.write_all(&asked[..length]).await.unwrap();
                            }
                            read = server.read(&mut answer) => {
                                let Ok(length @ 1..) = read else { return };
                                if creating && count.load(Ordering::SeqCst) < losses {
                                    count.fetch_add(1, Ordering::SeqCst);
                                    return;
                                }
                                client.write_all(&answer[..length]).await.unwrap();
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
    async fn a_lost_answer_makes_no_second_room() {
        let ada = Target::fan().await;
        let username = Username::parse(ada.login["user"]["username"].as_str().unwrap()).unwrap();
        for losses in [1, 2, 3] {
            let (url, lost) = lossy(losses).await;
            let chat = chat(&url);
            let (nonce, title) = (name(), name());
            let new =
                NewRoom { creator: &username, nonce: &nonce, name: &title, topic: "", is_private: false };
            let room = chat.create_room(new).await.unwrap();
            assert_eq!(lost.load(Ordering::SeqCst), losses.min(2), "answers were lost, as meant");
            assert_eq!(chat.create_room(new).await.unwrap(), room, "and once more");
            let joined = ada.ask_homeserver(Method::GET, "joined_rooms", None).await.expect(200);
            let rooms: Vec<&Value> = joined["joined_rooms"].as_array().unwrap().iter().collect();
            let mut named = 0;
            for one in rooms {
                let path = format!("rooms/{}/state/m.room.name", one.as_str().unwrap());
                let state = ada.ask_homeserver(Method::GET, &path, None).await.expect(200);
                named += u32::from(state["name"] == *title);
            }
            assert_eq!(named, 1);
        }
    }

    #[tokio::test]
    #[ignore = "needs Synapse: run tests/real-components"]
    async fn a_token_that_the_homeserver_does_not_take_is_said_clearly() {
        let chat = chat_with(&address("TOUCHLINE_TEST_HOMESERVER"), Some("not-the-token-of-the-file"));
        let nobody = Username::parse(&name()).unwrap();
        let refused = chat.log_in(&nobody, "DEVICE").await.unwrap_err();
        assert_eq!(refused, ChatError::Unavailable("the homeserver rejects our token".into()));
    }

    /// The homeserver's process, which a test may freeze, end and start again.
    struct Homeserver {
        pid: String,
        command: Vec<String>,
        url: String,
        restarted: Option<Child>,
    }

    impl Homeserver {
        fn running() -> Self {
            let pid = address("TOUCHLINE_TEST_HOMESERVER_PID");
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("a process");
            let command = command.split_terminator('\0').map(str::to_owned).collect();
            Self { pid, command, url: address("TOUCHLINE_TEST_HOMESERVER"), restarted: None }
        }

        fn signal(&self, signal: &str) {
            assert!(Command::new("kill").args([signal, &self.pid]).status().unwrap().success());
        }

        async fn is_up(&self) -> bool {
            let asked = reqwest::get(format!("{}/_matrix/client/versions", self.url));
            timeout(Duration::from_secs(2), asked).await.is_ok_and(|answer| answer.is_ok())
        }

        async fn end(&self) {
            self.signal("-KILL");
            eventually(async || self.is_up().await, |up| !up).await;
        }

        async fn start_again(&mut self) {
            let started = Command::new(&self.command[0]).args(&self.command[1..]).spawn();
            self.restarted = Some(started.expect("the homeserver starts"));
            // It may take longer than most things.
            for _ in 0..3 {
                if timeout(Duration::from_secs(15), eventually(async || self.is_up().await, |up| *up))
                    .await
                    .is_ok()
                {
                    return;
                }
            }
            panic!("the homeserver did not come back");
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

    /// What the API does while there is no chat.
    async fn without_chat(ada: &Fan, room: &str) {
        let target = Target::get();
        let code = target.request_code(&ada.phone).await;
        let body = json!({ "phone": ada.phone, "code": code });
        let login = target.post("/api/code/verify", &body);
        // The homeserver has two seconds; the rest of a login is milliseconds.
        let login = timeout(Duration::from_secs(4), login).await.expect("a login in time").expect(200);
        assert_eq!(login["data"]["matrix_credentials"], Value::Null);
        assert!(login["message"].as_str().unwrap().contains("Chat is not available"), "{login}");
        let token = login["data"]["token"].as_str().unwrap();
        for (path, body) in [
            ("/api/auth/chat-room".to_owned(), json!({ "name": "Nowhere" })),
            (format!("/api/auth/chat-rooms/{room}/join"), json!({})),
            ("/api/auth/chat/credentials".to_owned(), json!({})),
        ] {
            let answer = target.post_as(token, &path, &body).await;
            answer.expect_error(503, "chat_unavailable");
            assert!(answer.headers.contains_key("retry-after"));
        }
    }

    async fn with_chat(ada: &Fan, room: &str) {
        let fresh = ada.post("/api/auth/chat/credentials", &json!({})).await.expect(200);
        assert_eq!(fresh["data"]["user_id"], ada.chat_id());
        ada.ask_homeserver(Method::GET, "account/whoami", None).await.expect(200);
        let joined = act(ada, room, "join").await;
        assert!([200, 409].contains(&joined.status.as_u16()), "{}", joined.body);
    }

    /// Alone, and last: it takes the homeserver away from everybody.
    #[tokio::test]
    #[ignore = "needs Synapse to itself: run tests/real-components"]
    async fn outage_frozen_and_stopped() {
        let (ada, bob) = (Target::fan().await, Target::fan().await);
        let room = made(&bob, &name(), false).await;
        let mut homeserver = Homeserver::running();
        homeserver.signal("-STOP");
        without_chat(&ada, &room).await;
        homeserver.signal("-CONT");
        eventually(async || homeserver.is_up().await, |up| *up).await;
        with_chat(&ada, &room).await;

        homeserver.end().await;
        without_chat(&ada, &room).await;
        homeserver.start_again().await;
        with_chat(&ada, &room).await;
        // What failed meanwhile left nothing behind but the will to make it.
        let rooms = ada.get("/api/auth/chat-rooms?search=nowhere").await.expect(200);
        assert_eq!(rooms["data"], json!([]));
    }

    /// A homeserver that stands behind a login server says so.
    #[tokio::test]
    #[ignore = "with the others: run tests/real-components"]
    async fn a_login_server_that_refuses_is_told_from_a_homeserver_that_is_down() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut asked = [0; 16_384];
                let _ = client.read(&mut asked).await;
                let body =
                    json!({ "errcode": "M_APPSERVICE_LOGIN_UNSUPPORTED", "error": "Use the other way." });
                let body = body.to_string();
                let answer = format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = client.write_all(answer.as_bytes()).await;
            }
        });
        let nobody = Username::parse("nobody.at.all").unwrap();
        let refused = chat(&url).log_in(&nobody, "DEVICE").await.unwrap_err();
        assert_eq!(refused, ChatError::LoginUnsupported);
        assert!(refused.to_string().contains("docs/chat.md"), "{refused}");
    }
}
