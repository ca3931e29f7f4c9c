use touchline::api::sms_logs::{ListSmsLogs, SmsLogView};
use touchline::api::{Listing, NextPage};
use touchline::domain::sms::Position;
use touchline::storage::sms_logs::Filter;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListSmsLogs>) -> Result<Reply<Listing<SmsLogView>>, Error> {
    let input = call.input;
    let per_page = input.per_page.0;
    let filter = Filter { phone: input.phone, date: input.date, status: input.status, before: input.cursor };
    // One more than asked for shows whether there is a next page.
    let mut entries = app.store.sms_logs(&filter, per_page + 1, app.clock.now().date_naive()).await?;
    let more = entries.len() > per_page;
    entries.truncate(per_page);
    let next_cursor = entries.last().filter(|_| more).map(|last| Position::of(last).as_str().to_owned());
    let data = entries.into_iter().map(SmsLogView::from).collect();
    Ok(Listing { data, meta: NextPage { next_cursor } }.into())
}
