use futures_util::future::{try_join, try_join4};
use touchline::api::Data;
use touchline::api::account::{
    AccountExport, ExportAccount, ExportedBlock, ExportedCoins, ExportedInviteLink, ExportedMembership,
    ExportedMessage, ExportedProfile, ExportedReport, ExportedStatistics,
};
use touchline::api::coins::EntryView;
use touchline::api::predictions::PredictionView;
use touchline::domain::limit::DailyAction;
use touchline::domain::{User, UserId};
use touchline::flows::{day_limit, sessions};
use touchline::storage::sms_logs::Filter;
use touchline::storage::users::Verification;
use touchline::storage::{Reads, StoreError};
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

/// The maximum number of predictions, and of coin movements, in an export. At both maximums, a response has about 5 MB. Lambda
/// allows 6 MB.
const MAX_ROWS: usize = 10_000;

pub async fn handle(app: App, call: Call<ExportAccount>) -> Result<Reply<Data<AccountExport>>, Error> {
    let (caller, now) = (call.caller, app.clock.now());
    let user = caller.user;
    day_limit::count_request(&app, user, DailyAction::ExportAccount).await?;
    let profile = app.store.user(user, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    let store = &app.store;
    let (known_networks, messages) =
        try_join(known_networks(&app, &profile), messages(&app, &profile)).await?;
    let (verification, blocks, reports, links) = try_join4(
        store.verification(user),
        store.blocks(user, Reads::Consistent),
        store.reports_by(user),
        store.valid_invite_links_of(user, now),
    )
    .await?;
    let sessions = sessions::active(&app, &caller).await?;
    let ((predictions, has_all), (coins, has_all_entries), rooms, statistics) =
        try_join4(predictions(&app, user), coins(&app, user), rooms(&app, user), store.user_stats(user))
            .await?;
    let (blocks, _) = blocks.blocks.page(None, usize::MAX);
    let export = AccountExport {
        exported_at: now.into(),
        chat_user_id: format!("@{}:{}", profile.username.as_str(), app.config.chat.server),
        profile: profile_view(profile, known_networks, &app),
        sessions,
        pending_verification: verification.and_then(|pending: Verification| pending.pending_phone(now)),
        text_messages: messages,
        blocks: blocks
            .into_iter()
            .map(|block| ExportedBlock { user_id: block.user, created_at: block.at.into() })
            .collect(),
        reports: reports.into_iter().map(ExportedReport::from).collect(),
        rooms,
        invite_links: links.into_iter().map(ExportedInviteLink::from).collect(),
        predictions,
        statistics: ExportedStatistics {
            settled: statistics.settled,
            correct: statistics.correct,
            points: statistics.points,
        },
        coins,
        is_complete: has_all && has_all_entries,
    };
    Ok(Data { data: export }.into())
}

fn profile_view(user: User, known_networks: usize, app: &App) -> ExportedProfile {
    let now = app.clock.now();
    ExportedProfile {
        id: user.id,
        phone: user.phone,
        previous_phone: user.recovery.filter(|recovery| recovery.until > now).map(|recovery| recovery.phone),
        username: user.username,
        former_usernames: user.former_usernames,
        created_at: user.created_at.into(),
        name: user.name,
        email: user.email,
        date_of_birth: user.date_of_birth,
        primary_team_id: user.primary_team,
        other_team_ids: user.other_teams,
        known_networks,
    }
}

async fn known_networks(app: &App, user: &User) -> Result<usize, StoreError> {
    Ok(app.store.phone_owner(&user.phone).await?.map_or(0, |owner| owner.networks.len()))
}

async fn messages(app: &App, user: &User) -> Result<Vec<ExportedMessage>, StoreError> {
    let filter = Filter { phone: Some(user.phone.clone()), date: None, status: None, before: None };
    let entries = app.store.sms_logs(&filter, 1_000, app.clock.now().date_naive()).await?;
    let message = |entry: touchline::domain::sms::SmsLogEntry| ExportedMessage {
        status: entry.status,
        created_at: entry.created_at.into(),
    };
    Ok(entries.into_iter().map(message).collect())
}

async fn rooms(app: &App, user: UserId) -> Result<Vec<ExportedMembership>, StoreError> {
    let view = |row: touchline::storage::members::UserMembership| ExportedMembership {
        room_id: row.room_id,
        membership: row.membership,
    };
    Ok(app.store.memberships(user, usize::MAX).await?.into_iter().map(view).collect())
}

/// Returns the newest predictions, and whether there are no more.
async fn predictions(app: &App, user: UserId) -> Result<(Vec<PredictionView>, bool), StoreError> {
    let (mut views, mut before) = (Vec::new(), None);
    loop {
        let (rows, has_more) = app.store.own_predictions(user, before.as_ref(), 100).await?;
        views.extend(rows.iter().map(PredictionView::of));
        before = rows.into_iter().next_back().map(|row| row.created);
        if !has_more || before.is_none() || views.len() >= MAX_ROWS {
            return Ok((views, !has_more));
        }
    }
}

/// Returns the wallet with its newest movements, and whether there are no more.
async fn coins(app: &App, user: UserId) -> Result<(ExportedCoins, bool), StoreError> {
    let wallet = app.store.wallet(user).await?;
    let (mut entries, mut below): (Vec<EntryView>, _) = (Vec::new(), None);
    loop {
        let (page, has_more) = app.store.history(user, below, 1_000).await?;
        below = page.last().map(|entry| entry.sequence);
        entries.extend(page.into_iter().map(EntryView::from));
        if !has_more || entries.len() >= MAX_ROWS {
            return Ok((ExportedCoins { balance: wallet.balance, entries }, !has_more));
        }
    }
}

#[cfg(test)]
mod tests;
