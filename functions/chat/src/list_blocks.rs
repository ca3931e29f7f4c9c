use touchline::api::blocks::{BeforeBlock, BlockedUser, ListBlocks};
use touchline::api::{Cursor, CursorPage, NextPage};
use touchline::domain::UserId;
use touchline::flows::blocks;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

/// Lists the caller's blocks. Users who no longer exist are left out.
pub async fn handle(app: App, call: Call<ListBlocks>) -> Result<Reply<CursorPage<BlockedUser>>, Error> {
    let caller = call.caller.user;
    let before =
        call.input.cursor.map(|cursor| cursor.position_in(caller)).transpose()?.map(|before| before.0);
    let stored = app.store.blocks(caller, Reads::Consistent).await?;
    let (page, has_more) = stored.blocks.page(before, call.input.per_page.0);
    let users: Vec<UserId> = page.iter().map(|block| block.user).collect();
    let people = app.store.people(&users).await?;
    if stored.has_unsynced_changes()
        && let Err(error) = blocks::sync_ignored_users(&app, caller).await
    {
        tracing::warn!(%error, "the ignored users in chat are not up to date yet");
    }
    let data =
        page.iter().filter_map(|block| Some(BlockedUser::of(people.get(&block.user)?, *block))).collect();
    let last = page.last().filter(|_| has_more);
    let next_cursor = last.map(|last| Cursor::new(caller, BeforeBlock(*last)).to_string());
    Ok(CursorPage { data, meta: NextPage { next_cursor } }.into())
}
