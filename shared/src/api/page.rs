//! Pages of lists: with page numbers, or with cursors.

use serde::Serialize;

use crate::domain::catalog::Page;
use crate::domain::{Field, Raw, Reason};

/// A page of a list that is read with cursors.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct CursorPage<T> {
    /// The rows of this page.
    pub data: Vec<T>,
    /// How to get the next page.
    pub meta: NextPage,
}

/// How to get the next page.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NextPage {
    /// Send this text as `cursor` to get the next page. `null` on the last page.
    pub next_cursor: Option<String>,
}

/// A page of a list that is read with page numbers.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct NumberedPage<T> {
    /// The rows of this page.
    pub data: Vec<T>,
    /// Which page this is, and how many there are.
    pub meta: PageMeta,
}

/// Which page this is, and how many there are.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PageMeta {
    /// The number of this page, from 1.
    pub current_page: usize,
    /// The number of the last page.
    pub last_page: usize,
    /// The maximum number of rows on a page.
    pub per_page: usize,
    /// The number of rows on all pages together.
    pub total: usize,
}

impl PageMeta {
    #[must_use]
    pub fn of<T>(page: &Page<T>) -> Self {
        Self {
            current_page: page.paging.page,
            last_page: page.last_page(),
            per_page: page.paging.per_page,
            total: page.total,
        }
    }
}

/// A page number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageNumber(pub usize);

impl Field for PageNumber {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match usize::try_from(raw.integer()?) {
            Ok(page @ 1..) => Ok(Self(page)),
            _ => Err("Page numbers start at 1.".into()),
        }
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self(1))
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "integer", "minimum": 1, "maximum": i64::MAX, "default": 1,
            "description": "The page number, from 1. A page past the end is empty.",
        })
    }
}

/// The maximum number of rows on a page, 1 to 100. `DEFAULT` applies to a request without this field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerPage<const DEFAULT: usize>(pub usize);

impl<const DEFAULT: usize> Field for PerPage<DEFAULT> {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match usize::try_from(raw.integer()?) {
            Ok(rows @ 1..=100) => Ok(Self(rows)),
            _ => Err("A page has 1 to 100 rows.".into()),
        }
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self(DEFAULT))
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "integer", "minimum": 1, "maximum": 100, "default": DEFAULT, "description": "Rows per page.",
        })
    }
}
