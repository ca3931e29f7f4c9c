use futures_util::future::try_join3;
use touchline::api::users::{AfterUsername, SearchUsers, UserView};
use touchline::api::{Cursor, CursorPage, Invalid, NextPage};
use touchline::domain::UserId;
use touchline::domain::profile::PublicProfile;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SearchUsers>) -> Result<Reply<CursorPage<UserView>>, Error> {
    let (input, caller) = (call.input, call.caller.user);
    let prefix = input.search;
    let after = input.cursor.map(|cursor| cursor.position_in(prefix.as_str())).transpose()?;
    let after = after.map(|after| after.0);
    if after.as_ref().is_some_and(|after| !after.as_str().starts_with(prefix.as_str())) {
        return Err(Invalid::field("cursor", Cursor::<AfterUsername>::WRONG_LIST).into());
    }
    let (found, has_more) = app.store.search_usernames(&prefix, after.as_ref(), input.per_page.0).await?;
    let mut ids: Vec<UserId> = found.iter().map(|found| found.user_id).collect();
    ids.sort_unstable();
    // A user can have an outdated item, too. DynamoDB rejects a batch with the same key twice.
    ids.dedup();
    let (profiles, own, blockers) = try_join3(
        app.store.public_profiles(&ids),
        app.store.blocks(caller, Reads::Eventual),
        app.store.blockers(caller, &ids),
    )
    .await?;
    let last = found.last().filter(|_| has_more).map(|last| last.username.clone());
    let is_shown = |profile: &PublicProfile| {
        !profile.is_suspended() && !own.blocks.contains(profile.id) && !blockers.contains(&profile.id)
    };
    let shown: Vec<PublicProfile> = found
        .into_iter()
        .filter_map(|found| {
            let profile = profiles.get(&found.user_id)?;
            (profile.username == found.username && is_shown(profile)).then(|| profile.clone())
        })
        .collect();
    // Without teams there is nothing to look up in the catalog.
    let has_teams = shown.iter().any(|profile| profile.primary_team.is_some());
    let catalog = if has_teams { Some(app.teams().await?) } else { None };
    let data = shown.into_iter().map(|profile| UserView::of(profile, catalog.as_deref())).collect();
    let next_cursor = last.map(|last| Cursor::new(prefix.as_str(), AfterUsername(last)).to_string());
    Ok(CursorPage { data, meta: NextPage { next_cursor } }.into())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use serde_json::{Value, json};
    use touchline::api::Cursor;
    use touchline::api::users::AfterUsername;
    use touchline::domain::{UserId, Username};
    use touchline::storage::keys::{self, Key};
    use touchline_testing::{TestApp, User};

    async fn app() -> TestApp {
        let app = TestApp::serving(&[crate::router, chat::router, teams::router]).start().await;
        let league = serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        app.invoke(feed::handle, league).await;
        app
    }

    fn usernames(list: &Value) -> Vec<&str> {
        list["data"].as_array().unwrap().iter().map(|row| row["username"].as_str().unwrap()).collect()
    }

    async fn search(user: &User, text: &str) -> Vec<String> {
        let list = user.searches_users(text).await.expect(200);
        usernames(&list).into_iter().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn users_are_found_by_the_beginning_of_their_username_in_any_case() {
        let app = app().await;
        let alice = app.user("alice").await;
        for name in ["alan", "alina", "ali.baba", "bob", "al_capone"] {
            app.user(name).await;
        }
        alice.saves_primary_team(1).await.expect(200);
        alice.updates_profile().name("Ada").email("ada@example.org").await.expect(200);
        assert_eq!(search(&alice, "al").await, ["al_capone", "alan", "ali.baba", "alice", "alina"]);
        assert_eq!(search(&alice, " ALI").await, ["ali.baba", "alice", "alina"]);
        assert_eq!(search(&alice, "lice").await, [""; 0]);
        let rows = alice.searches_users("alice").await.expect_data(200);
        let team = json!({ "id": 1, "name": rows[0]["primary_team"]["name"], "logo": rows[0]["primary_team"]["logo"] });
        assert_eq!(
            rows,
            json!([{ "id": alice.id, "username": "alice", "name": "Ada", "primary_team": team }])
        );
        assert!(team["name"].is_string());
    }

    #[tokio::test]
    async fn a_search_needs_two_characters_of_usernames() {
        let app = app().await;
        let alice = app.user("alice").await;
        for text in ["", "a", " a ", "al ice", "josé", &"a".repeat(31)] {
            alice.searches_users(text).await.expect_invalid(&["search"]);
        }
        alice.get("/api/auth/users").await.expect_invalid(&["search"]);
    }

    #[tokio::test]
    async fn pages_have_all_users_once() {
        let app = app().await;
        let alice = app.user("alice").await;
        let mut expected = Vec::new();
        for n in 0..23 {
            expected.push(app.user(&format!("fan.{n:02}")).await.username);
        }
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let request = alice.searches_users("fa").per_page(5);
            let request = match &cursor {
                Some(cursor) => request.cursor(cursor),
                None => request,
            };
            let page = request.await.expect(200);
            seen.extend(usernames(&page).into_iter().map(str::to_owned));
            cursor = page["meta"]["next_cursor"].as_str().map(str::to_owned);
            if let Some(cursor) = &cursor {
                alice.searches_users("fan").cursor(cursor).await.expect_invalid(&["cursor"]);
            } else {
                break;
            }
        }
        assert_eq!(seen, expected);
    }

    /// DynamoDB rejects a query that begins outside of its range.
    #[tokio::test]
    async fn a_cursor_of_a_username_that_the_search_cannot_find_is_rejected() {
        let app = app().await;
        let alice = app.user("alice").await;
        let cursor = Cursor::new("fa", AfterUsername(Username::parse("bob").unwrap())).to_string();
        alice.searches_users("fa").cursor(&cursor).await.expect_invalid(&["cursor"]);
    }

    #[tokio::test]
    async fn a_rename_moves_a_user_in_the_search() {
        let app = app().await;
        let alice = app.user("alice").await;
        alice.updates_profile().username("ada").await.expect(200);
        assert_eq!(search(&alice, "al").await, [""; 0]);
        assert_eq!(search(&alice, "ad").await, ["ada"]);
        alice.updates_profile().username("alice").await.expect(200);
        assert_eq!(search(&alice, "al").await, ["alice"]);
        assert_eq!(search(&alice, "ad").await, [""; 0]);
        // Items that a previous version of a function leaves behind.
        for outdated in ["alfred", "alison"] {
            let Key { pk, sk } = keys::searched_username(&Username::parse(outdated).unwrap());
            let put = app.client().put_item().table_name(&app.config.tables.users);
            let put = put.item("pk", AttributeValue::S(pk)).item("sk", AttributeValue::S(sk));
            put.item("user_id", AttributeValue::N(alice.id.to_string())).send().await.unwrap();
        }
        assert_eq!(search(&alice, "al").await, ["alice"]);
    }

    #[tokio::test]
    async fn suspended_blocked_and_blocking_users_are_left_out() {
        let app = app().await;
        let [alice, bob, carol] =
            [app.user("fan.alice").await, app.user("fan.bob").await, app.user("fan.carol").await];
        let dave = app.user("fan.dave").await;
        alice.blocks(bob.id).await.expect(200);
        app.store.suspend_user(UserId(carol.id), app.clock.now()).await.unwrap();
        assert_eq!(search(&alice, "fan").await, ["fan.alice", "fan.dave"]);
        assert_eq!(search(&bob, "fan").await, ["fan.bob", "fan.dave"]);
        assert_eq!(search(&dave, "fan").await, ["fan.alice", "fan.bob", "fan.dave"]);
        app.store.restore_user(UserId(carol.id)).await.unwrap();
        assert_eq!(search(&dave, "fan.c").await, ["fan.carol"]);
    }
}
