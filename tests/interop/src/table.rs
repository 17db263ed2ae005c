//! The table of case and server in `tests/README.md`, which each run fills.

use std::collections::HashMap;
use std::path::Path;

use crate::cases::CASES;
use crate::peer::Library;

const BEGIN: &str = "<!-- filled by tests/peers -->\n";
const END: &str = "<!-- end -->\n";
const UNTRIED: &str = "not run";

/// What a case showed on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Whole,
    WithoutProbe,
    Uncompressed,
    AllCompressed,
    Failed,
}

impl Shown {
    /// The cell's text; the numbers are those of the notes below the table.
    fn text(self) -> &'static str {
        match self {
            Self::Whole => "passes",
            Self::WithoutProbe => "passes (1)",
            Self::Uncompressed => "passes (2)",
            Self::AllCompressed => "passes (3)",
            Self::Failed => "FAILS",
        }
    }
}

/// Writes one library's column, and leaves the others as they are.
pub(crate) fn update(library: Library, column: &[(&str, Shown)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let page = std::fs::read_to_string(&path).expect("tests/README.md");
    let (before, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (table, after) = rest.split_once(END).expect("where the table ends");
    let table = filled(table, library, column);
    let page = format!("{before}{BEGIN}{table}{END}{after}");
    std::fs::write(&path, page).expect("tests/README.md");
}

fn filled(table: &str, library: Library, column: &[(&str, Shown)]) -> String {
    let known: HashMap<&str, Vec<&str>> = table.lines().filter_map(row).collect();
    let column: HashMap<_, _> = column.iter().copied().collect();
    let mut filled = "| case |".to_owned();
    for library in Library::ALL {
        filled += &format!(" {} |", library.name());
    }
    filled += &format!("\n|{}\n", " --- |".repeat(1 + Library::ALL.len()));
    for (case, _) in CASES {
        filled += &format!("| {case} |");
        for (place, other) in Library::ALL.into_iter().enumerate() {
            let known = known.get(case).and_then(|cells| cells.get(place).copied());
            let own = column.get(case).filter(|_| other == library);
            let text = own.map_or(known.unwrap_or(UNTRIED), |shown| shown.text());
            filled += &format!(" {text} |");
        }
        filled += "\n";
    }
    filled
}

/// A case's name, and what the table says of it for each library.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line
        .strip_prefix('|')?
        .strip_suffix('|')?
        .split('|')
        .map(str::trim);
    Some((cells.next()?, cells.collect()))
}
