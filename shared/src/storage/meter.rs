//! Measures the cost of a request: DynamoDB calls, capacity units, and rounds of concurrent calls.
//!
//! The meter is always on, so tests and production report the same figures.

use std::cell::RefCell;
use std::future::Future;

use aws_sdk_dynamodb::operation::{
    batch_execute_statement as batch_execute, batch_get_item as batch_get, batch_write_item as batch_write,
    delete_item as delete, get_item as get, put_item as put, query, transact_get_items as transact_get,
    transact_write_items as transact, update_item as update,
};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextMut, BeforeSerializationInterceptorContextRef,
    FinalizerInterceptorContextRef, Input, Output,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};

/// The DynamoDB usage of a piece of work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    pub calls: u32,
    /// Rounds of calls: calls that overlap in time count as one round.
    pub rounds: u32,
    pub read_units: f64,
    pub write_units: f64,
    in_flight: u32,
}

tokio::task_local! {
    static COST: RefCell<Cost>;
}

/// Runs `work` and measures its DynamoDB calls. Calls in tasks that `work` spawns are not measured.
pub async fn measure<F: Future>(work: F) -> (F::Output, Cost) {
    COST.scope(RefCell::default(), async {
        let output = work.await;
        (output, COST.with(|cost| *cost.borrow()))
    })
    .await
}

fn with_cost(change: impl FnOnce(&mut Cost)) {
    // Outside of `measure` there is nothing to update.
    let _ = COST.try_with(|cost| change(&mut cost.borrow_mut()));
}

#[derive(Debug)]
pub(super) struct Meter;

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "capacity meter"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        with_cost(|cost| {
            cost.calls += 1;
            cost.rounds += u32::from(cost.in_flight == 0);
            cost.in_flight += 1;
        });
        Ok(())
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        request_capacity(context.input_mut());
        // Computed here, because the input is no longer available when the response arrives.
        bag.interceptor_state().store_put(FailureCost(failure_cost(context.input())));
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let used = match context.output_or_error() {
            Some(Ok(output)) => used(output),
            Some(Err(_)) => Used::Written(bag.load::<FailureCost>().map_or(0.0, |units| units.0)),
            None => Used::Read(0.0),
        };
        with_cost(|cost| {
            cost.in_flight = cost.in_flight.saturating_sub(1);
            match used {
                Used::Read(units) => cost.read_units += units,
                Used::Written(units) => cost.write_units += units,
            }
        });
        Ok(())
    }
}

/// The write units of a call that fails. The error does not report them, so they are estimated: a write of a
/// small item costs one unit, or two in a transaction.
#[derive(Debug)]
struct FailureCost(f64);

impl Storable for FailureCost {
    type Storer = StoreReplace<Self>;
}

fn failure_cost(input: &Input) -> f64 {
    match input.downcast_ref::<transact::TransactWriteItemsInput>() {
        // The conversion cannot fail: a transaction has at most 100 writes.
        Some(transaction) => 2.0 * f64::from(u32::try_from(transaction.transact_items().len()).unwrap_or(0)),
        None => f64::from(u8::from(is_write(input))),
    }
}

enum Used {
    Read(f64),
    Written(f64),
}

fn units(capacity: Option<&ConsumedCapacity>) -> f64 {
    capacity.and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0)
}

fn sum(capacity: &[ConsumedCapacity]) -> f64 {
    capacity.iter().filter_map(ConsumedCapacity::capacity_units).sum()
}

macro_rules! operations {
    (
        read: $($read:ident::$read_input:ident => $read_output:ident by $read_units:ident),+;
        write: $($write:ident::$write_input:ident => $write_output:ident by $write_units:ident),+;
    ) => {
        fn request_capacity(input: &mut Input) {
            $(if let Some(input) = input.downcast_mut::<$read::$read_input>() {
                input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
            })+
            $(if let Some(input) = input.downcast_mut::<$write::$write_input>() {
                input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
            })+
        }

        fn is_write(input: &Input) -> bool {
            false $(|| input.downcast_ref::<$write::$write_input>().is_some())+
        }

        fn used(output: &Output) -> Used {
            $(if let Some(output) = output.downcast_ref::<$read::$read_output>() {
                return Used::Read($read_units(output.consumed_capacity()));
            })+
            $(if let Some(output) = output.downcast_ref::<$write::$write_output>() {
                return Used::Written($write_units(output.consumed_capacity()));
            })+
            Used::Read(0.0)
        }
    };
}

operations! {
    read: get::GetItemInput => GetItemOutput by units,
        query::QueryInput => QueryOutput by units,
        batch_get::BatchGetItemInput => BatchGetItemOutput by sum,
        transact_get::TransactGetItemsInput => TransactGetItemsOutput by sum;
    write: put::PutItemInput => PutItemOutput by units,
        update::UpdateItemInput => UpdateItemOutput by units,
        delete::DeleteItemInput => DeleteItemOutput by units,
        transact::TransactWriteItemsInput => TransactWriteItemsOutput by sum,
        batch_write::BatchWriteItemInput => BatchWriteItemOutput by sum,
        batch_execute::BatchExecuteStatementInput => BatchExecuteStatementOutput by sum;
}
