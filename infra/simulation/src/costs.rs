//! What a request may cost: the ceilings of docs/costs.md.

use std::sync::LazyLock;

use serde_json::Value;

/// The capacity units that a request used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Units {
    pub reads: f64,
    pub writes: f64,
}

impl Units {
    /// Reads the units from the response to a call. The engine does not count those of statements, which only `points`
    /// uses.
    pub fn of(operation: &str, response: &Value) -> Self {
        if operation == "BatchExecuteStatement" {
            return Self::default();
        }
        let of_table =
            |capacity: &Value| capacity["CapacityUnits"].as_f64().expect("the engine counts units");
        let used = match &response["ConsumedCapacity"] {
            Value::Array(tables) => tables.iter().map(of_table).sum(),
            table => of_table(table),
        };
        if is_read(operation) { Self { reads: used, writes: 0.0 } } else { Self { reads: 0.0, writes: used } }
    }
}

/// Returns whether an operation of DynamoDB only reads.
pub fn is_read(operation: &str) -> bool {
    matches!(operation, "GetItem" | "Query" | "Scan" | "BatchGetItem" | "TransactGetItems")
}

/// The highest ceiling of an endpoint.
struct Ceiling {
    method: String,
    /// The segments of the path. Those in braces stand for any text.
    path: Vec<String>,
    units: Units,
}

/// The most units that the check of a token adds. It reads the session, and reads it again if a replica does not have it
/// yet. Once a day it also renews the session.
const AUTH: Units = Units { reads: 1.5, writes: 1.0 };

/// The units that a new environment adds: it loads the catalog, twice if a replica does not have all of it yet.
const COLD: Units = Units { reads: 10.0, writes: 0.0 };

static CEILINGS: LazyLock<Vec<Ceiling>> = LazyLock::new(|| {
    let rows = include_str!("../../../docs/costs.md").lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| read_row(row).expect("a row of docs/costs.md has an endpoint and a ceiling")).collect()
});

/// Reads a row: `| endpoint | case | … | ceiling (reads, writes, rounds) |`.
fn read_row(row: &str) -> Option<Ceiling> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let (method, path) = cells.first()?.trim_matches('`').split_once(' ')?;
    let mut figures = cells.last()?.split(", ").map(str::parse::<f64>);
    let units = Units { reads: figures.next()?.ok()?, writes: figures.next()?.ok()? };
    Some(Ceiling { method: method.to_owned(), path: path.split('/').map(str::to_owned).collect(), units })
}

/// The read units that each row of a list adds. The lists in docs/costs.md have a certain length, those of a world have any.
const PER_ROW: f64 = 1.5;

/// Returns the most units that a request to an endpoint may use. `rows` is the length of the list in the response. `None`
/// if docs/costs.md does not have the endpoint.
pub fn ceiling(method: &str, path: &str, rows: usize) -> Option<Units> {
    let segments: Vec<&str> = path.split('/').collect();
    let is_same = |pattern: &str, segment: &str| pattern.starts_with('{') || pattern == segment;
    let of_endpoint = CEILINGS.iter().filter(|ceiling| {
        ceiling.method == method
            && ceiling.path.len() == segments.len()
            && ceiling.path.iter().zip(&segments).all(|(pattern, segment)| is_same(pattern, segment))
    });
    of_endpoint
        .map(|ceiling| ceiling.units)
        .reduce(|one, other| Units {
            reads: one.reads.max(other.reads),
            writes: one.writes.max(other.writes),
        })
        .map(|most| Units {
            reads: most.reads
                + AUTH.reads
                + COLD.reads
                + PER_ROW * f64::from(u32::try_from(rows).unwrap_or(u32::MAX)),
            writes: most.writes + AUTH.writes + COLD.writes,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_ceiling_of_an_endpoint_counts() {
        let row = |row| read_row(row).map(|ceiling| (ceiling.method, ceiling.path.join("/"), ceiling.units));
        assert_eq!(
            row("| `POST /api/x/{id}` | a case | 4 | 1 | 3 | 3 | 1.5, 3, 3 |"),
            Some(("POST".into(), "/api/x/{id}".into(), Units { reads: 1.5, writes: 3.0 }))
        );
        let join = ceiling("POST", "/api/auth/chat-rooms/!a:b/join", 0).expect("the endpoint is documented");
        assert!(join.writes >= 4.0, "{join:?}");
        assert_eq!(ceiling("GET", "/nowhere", 0), None);
    }
}
