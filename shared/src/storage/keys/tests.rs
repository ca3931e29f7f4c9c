use std::collections::BTreeMap;

use super::*;
use crate::domain::CodePepper;
use crate::domain::coins::ReferenceId;

fn flat(key: &Key) -> String {
    format!("{}/{}", key.pk, key.sk)
}

#[test]
fn keys_of_the_users_table_keep_their_format() {
    let phone = Phone::parse("+447700900123").unwrap();
    let name = Username::parse("alice").unwrap();
    assert_eq!(flat(&profile(UserId(7))), "user#7/profile");
    assert_eq!(flat(&session(UserId(7), "ab")), "user#7/session#ab");
    assert_eq!(flat(&phone_owner(&phone)), "phone#+447700900123/owner");
    assert_eq!(flat(&phone_codes(&phone)), "phone#+447700900123/codes");
    assert_eq!(flat(&verification(UserId(7))), "user#7/verification");
    let address = Address::of("203.0.113.9".parse().unwrap()).unwrap();
    assert_eq!(flat(&address_limit(&address)), "address#203.0.113.9/limit");
    assert_eq!(flat(&wrong_codes(&address)), "address#203.0.113.9/wrong");
    let network = Address::of("2001:db8:1:2::1".parse().unwrap()).unwrap().wider().unwrap();
    let at = "2026-11-15T12:34:56Z".parse().unwrap();
    assert_eq!(
        flat(&hour_limit(HourlyAction::RequestCode, &network, at)),
        "address#2001:db8:1::/48/codes#2026-11-15T12"
    );
    assert_eq!(flat(&username_owner(&name)), "name#6ea988ee737a68d0fb1d7bb76040e804/owner");
    assert_eq!(flat(&searched_username(&name)), "search#al/alice");
    assert_eq!(username_search("al"), "search#al");
    assert_eq!(flat(&user_counter()), "counter#user/last");
}

#[test]
fn the_partition_of_an_sms_log_entry_keeps_its_format() {
    let phone = Phone::parse("+447700900123").unwrap();
    let day = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
    assert_eq!(sms_log_day(day, sms_log_shard(&phone)), "day#2026-11-15#1");
}

#[test]
fn counters_of_messages_have_keys_without_addresses() {
    let pepper = CodePepper::parse("a pepper for the tests").unwrap();
    let phones = ["+447700900123", "+18765550123"].map(|phone| Phone::parse(phone).unwrap());
    let requester = |phone: &Phone, address: &str| {
        pepper.requester(phone, &Address::of(address.parse().unwrap()).unwrap())
    };
    let [network, other] = phones.each_ref().map(|phone| requester(phone, "2001:db8:1:2::1"));
    assert_eq!(sms_network(&network.counted_for), sms_network(&other.counted_for));
    assert_ne!(network.network, other.network);
    assert_eq!(requester(&phones[0], "2001:db8:1:ffff::1").counted_for, network.counted_for, "the same /48");
    assert_ne!(requester(&phones[0], "203.0.113.9").counted_for, network.counted_for);
    assert!(!flat(&sms_network(&network.counted_for)).contains("2001"));
    assert_eq!(flat(&sms_prefix(&CallingPrefix::of(&phones[1]))), "prefix#+1876/counts");
    let month = Month::of("2026-11-15T12:34:56Z".parse().unwrap());
    assert_eq!(flat(&sms_month(month)), "month#2026-11/counts");
}

#[test]
fn phones_are_spread_evenly_over_the_sms_log_shards() {
    let mut counts = [0; SMS_LOG_SHARDS as usize];
    for n in 0..4_000 {
        counts[sms_log_shard(&Phone::parse(&format!("+4477009{n:05}")).unwrap()) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
}

#[test]
fn keys_of_the_catalog_table_keep_their_format() {
    assert_eq!(flat(&catalog_row(Kind::Event, 9)), "event#9/row");
    assert_eq!(flat(&catalog_external(Kind::Team, catalog::Key(10))), "external#team#000000000000000a/id");
    assert_eq!(flat(&snapshot_head()), "snapshot/head");
    assert_eq!(flat(&snapshot_index("7.a")), "snapshot#7.a/index");
    let march = ChunkName::Month { year: 2026, month: 3 };
    assert_eq!(flat(&snapshot_part("7.a", march, 1)), "snapshot#7.a#2026-03#1/part");
}

#[test]
fn keys_of_the_predictions_table_keep_their_format() {
    assert_eq!(flat(&prediction(9, 64, UserId(7))), "event#9#23/user#7");
    assert_eq!(flat(&event_tally(9)), "event#9/tally");
    assert_eq!(flat(&event_tally_part(9, 23)), "event#9/tally#23");
    assert_eq!(flat(&settlement(9)), "event#9/settlement");
    assert_eq!(flat(&due(9)), "due/event#9");
    assert_eq!(flat(&user_stats(UserId(7))), "stats#87/stats#7");
}

#[test]
fn is_prediction_accepts_only_the_keys_of_predictions() {
    let is_prediction = |key: &Key| super::is_prediction(&key.pk, &key.sk);
    assert!(is_prediction(&prediction(9, 4, UserId(7))));
    let others = [event_tally(9), event_tally_part(9, 23), settlement(9), due(9), user_stats(UserId(7))];
    assert!(!others.iter().any(is_prediction));
}

#[test]
fn keys_of_the_standings_table_keep_their_format() {
    let board = "t7.m2026-11".parse().unwrap();
    assert_eq!(flat(&board_head(board)), "board#t7.m2026-11/head");
    assert_eq!(flat(&board_part(board, 3, BoardPart::Block(12))), "board#t7.m2026-11#3#block#12/part");
    assert_eq!(flat(&board_part(board, 3, BoardPart::Index(0))), "board#t7.m2026-11#3#index#0/part");
    assert_eq!(flat(&board_part(board, 3, BoardPart::Ranks(1))), "board#t7.m2026-11#3#ranks#1/part");
    assert_eq!(flat(&board_run(board, 3, 63, 7)), "board#t7.m2026-11#3#run#63#7/part");
    assert_eq!(flat(&latest_matchday(Scope::Tournament(7))), "board#t7.all/matchday");
    assert_eq!(flat(&board_part(board, 3, BoardPart::Users(9))), "board#t7.m2026-11#3#users#9/part");
    assert_eq!(flat(&queued_boards(5)), "queue#5/5");
    assert_eq!(flat(&queued_rooms(5)), "queue#rooms#5/5");
    assert_eq!(flat(&open_boards()), "open/boards");
    assert_eq!(flat(&workers_lease()), "open/lease");
    assert_eq!(stats_owner("stats#23", "stats#7"), Some(UserId(7)));
    assert_eq!(stats_owner("user#7", "stats"), None);
}

#[test]
fn keys_of_the_wallets_table_keep_their_format() {
    assert_eq!(flat(&balance(UserId(7))), "user#7/balance");
    let day = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
    assert_eq!(flat(&entry(UserId(7), &EntryKey::Day(day))), "user#7/entry#day#2026-11-15");
    let reference = ReferenceId::parse("a#b").unwrap();
    assert_eq!(
        flat(&entry(UserId(7), &EntryKey::Reference(reference.clone()))),
        "user#7/entry#reference#a#b"
    );
    assert_eq!(flat(&entry(UserId(7), &EntryKey::Grant(reference))), "user#7/entry#grant#a#b");
}

#[test]
fn keys_of_the_rooms_table_keep_their_format() {
    let id = RoomId::parse("!x:server").unwrap();
    assert_eq!(flat(&room(&id)), "room#!x:server/room");
    assert_eq!(flat(&room_tally(&id)), "room#!x:server/tally");
    assert_eq!(flat(&room_tally_part(&id, 23)), "room#!x:server/tally#23");
    assert_eq!(flat(&member(&id, 64, UserId(7))), "room#!x:server#23/member#7");
    assert_eq!(flat(&room_creation(UserId(7), "ab")), "making#7/ab");
    assert_eq!(flat(&push("ab")), "push#ab/number");
    assert_eq!(flat(&pushes()), "push/count");
    assert_eq!(flat(&invite_link(UserId(7), &RoomId::parse("!x:hs").unwrap())), "user#7/link#!x:hs");
    assert_eq!(flat(&link_revocations(&RoomId::parse("!x:hs").unwrap())), "room#!x:hs/links");
    let code = LinkCode::parse("ABCDEFGH2345").unwrap();
    assert_eq!(flat(&invite_link_code(&code)), "link#cb555e53e6d18dc82c21cab6a105ef84/code");
}

#[test]
fn is_member_accepts_only_the_keys_of_memberships() {
    let id = RoomId::parse("!x:server").unwrap();
    let is_member = |key: &Key| super::is_member(&key.pk, &key.sk);
    assert!(is_member(&member(&id, 1, UserId(7))));
    assert!(!is_member(&room(&id)) && !is_member(&room_tally(&id)) && !is_member(&room_tally_part(&id, 23)));
}

/// A suffix for each letter would make the import of a season slow: its 380 rooms have 10,000 letters.
#[test]
fn only_rooms_that_users_created_have_an_entry_for_each_letter_of_their_name() {
    let match_room = Room {
        room_id: RoomId::parse("!x:server").unwrap(),
        name: "Home – Away".into(),
        topic: String::new(),
        event_id: Some(9),
        creator_id: None,
        is_private: false,
        shards: 4,
        created_at: chrono::DateTime::UNIX_EPOCH,
        last_activity: chrono::DateTime::UNIX_EPOCH,
        league: None,
        removed_at: None,
    };
    let partitions = |room: &Room| -> Vec<String> {
        directory_entries(room, "home - away", &[0, 1, 2, 3, 5, 7, 8, 9, 10])
            .into_iter()
            .map(|(key, _)| key.pk)
            .collect()
    };
    assert_eq!(partitions(&match_room), ["about#9#0"]);
    let users_room = Room { creator_id: Some(UserId(7)), ..match_room };
    let find =
        ["h#2", "o#2", "m#1", "e#0", "-#0", "a#3", "w#0", "a#3", "y#0"].map(|key| format!("find#{key}"));
    assert_eq!(partitions(&users_room)[..2], ["about#9#0", "directory#0"]);
    assert_eq!(partitions(&users_room)[2..], find);
}

/// A search reads the partitions in this order, so the order must be that of the sort keys.
#[test]
fn a_search_reads_one_partition_or_four_for_a_single_character() {
    for (text, after, expected) in [
        ("e", None, &["find#e#0", "find#e#1", "find#e#2", "find#e#3"][..]),
        ("e", Some("e#0001"), &["find#e#0", "find#e#1", "find#e#2", "find#e#3"]),
        ("e", Some("else#0001"), &["find#e#2", "find#e#3"]),
        ("e", Some("ez#0001"), &["find#e#3"]),
        ("el", None, &["find#e#2"]),
        ("el", Some("else#0001"), &["find#e#2"]),
        ("e~", None, &["find#e#3"]),
        ("e ", None, &["find#e#0"]),
        ("##", None, &["find###0"]),
    ] {
        assert_eq!(suffix_partitions(text, after), expected, "{text} {after:?}");
    }
}

#[test]
fn a_search_for_one_character_reads_its_partitions_in_the_order_of_the_sort_keys() {
    let mut sort_keys: Vec<String> =
        (b' '..=b'~').map(|second| format!("e{}x#1", char::from(second))).collect();
    sort_keys.push("e#1".into());
    sort_keys.sort();
    assert!(sort_keys.is_sorted_by_key(|key| suffix_range(key)), "{sort_keys:?}");
}

/// The names of rooms are similar: thousands of users create rooms about the same match. No partition key may get
/// most of the writes, because it takes 1,000 a second.
#[test]
fn the_entries_of_rooms_with_the_same_first_letter_spread_over_many_partition_keys() {
    const FIRST: [&str; 8] =
        ["saturday", "stand", "supporters", "south", "sofa", "stadium", "sunday", "strikers"];
    const SECOND: [&str; 8] = ["crew", "club", "fans", "league", "table", "talk", "corner", "lounge"];
    let mut writes = BTreeMap::<String, u32>::new();
    let mut rooms = 0;
    for number in 0..10 {
        for (first, second) in FIRST.iter().flat_map(|first| SECOND.map(|second| (first, second))) {
            let name = format!("{first} {second} {number}");
            let room = Room {
                room_id: RoomId::parse(&format!("!{rooms}:server")).unwrap(),
                name: name.clone(),
                topic: String::new(),
                event_id: None,
                creator_id: Some(UserId(7)),
                is_private: false,
                shards: 4,
                created_at: chrono::DateTime::UNIX_EPOCH,
                last_activity: chrono::DateTime::UNIX_EPOCH,
                league: None,
                removed_at: None,
            };
            let starts: Vec<usize> = (0..name.len()).filter(|at| name.as_bytes()[*at] != b' ').collect();
            for (key, _) in directory_entries(&room, &name, &starts) {
                *writes.entry(key.pk).or_default() += 1;
            }
            rooms += 1;
        }
    }
    let all: u32 = writes.values().sum();
    let (busiest, most) = writes.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(writes.len() > 50, "{} partition keys", writes.len());
    assert!(most * 20 < all, "{busiest} has {most} of {all} entries");
    // A key that gets less than one entry for a new room takes the entries of more than 1,000 new rooms a second.
    assert!(*most < rooms, "{busiest} has {most} entries of {rooms} rooms");
}

/// A recount relies on it: if one stream shard has both markers of a partition, it has all rows in between.
#[test]
fn markers_sort_before_and_after_all_rows_of_their_partition() {
    for row in
        [predictor(UserId(1)), predictor(UserId(u32::MAX)), member_of(UserId(1)), member_of(UserId(u32::MAX))]
    {
        assert!(marker(End::First) < row.as_str() && row.as_str() < marker(End::Last), "{row}");
        assert_eq!(marker_end(&row), None);
    }
    assert_eq!(marker_end(marker(End::First)), Some(End::First));
    assert_eq!(marker_end(marker(End::Last)), Some(End::Last));
}

#[test]
fn partitions_of_rows_name_their_match_or_room_and_their_shard() {
    let id = RoomId::parse("!x:server:8448").unwrap();
    assert_eq!(predicted_event(&event_shard(9, 23)), Some((9, 23)));
    assert_eq!(room_of_members(&room_shard(&id, 23)), Some((id.clone(), 23)));
    for pk in ["event#9", "event#9#x", "room#!x:server", "user#7", "", &room(&id).pk] {
        assert_eq!((predicted_event(pk), room_of_members(pk)), (None, None), "{pk}");
    }
}
