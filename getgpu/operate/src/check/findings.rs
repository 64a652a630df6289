//! What `--check` has found: what it is about, whether that is as it should be, and a
//! remedy where it is not; for people a line each, or as JSON.

use getgpu_model::{
    Failure,
    diag::{json, printable, show},
    quantity::counted,
};
use serde::Serialize;

use crate::causes::OperateCause;

/// One of them; the names are those of the JSON.
#[derive(Debug, Serialize)]
struct Finding {
    ok: bool,
    about: String,
    found: String,
    remedy: Option<String>,
}

/// What has been found so far.
#[derive(Default)]
pub struct Findings(Vec<Finding>);

/// How findings are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    All,
    Problems,
    Json,
}

impl Findings {
    /// Notes what is as it should be.
    pub fn fine(&mut self, what: &str, found: &str) {
        self.note(true, what, found, "");
    }

    /// Notes what is not, and what to do.
    pub fn wrong(&mut self, what: &str, found: &str, remedy: &str) {
        self.note(false, what, found, remedy);
    }

    /// Notes a failure, with its own hint or `otherwise`.
    pub fn failed(&mut self, what: &str, failure: &Failure, otherwise: &str) {
        let remedy = failure.hint.as_deref().unwrap_or(otherwise);
        self.wrong(what, &failure.message, remedy);
    }

    fn note(&mut self, ok: bool, about: &str, found: &str, remedy: &str) {
        self.0.push(Finding {
            ok,
            about: about.to_owned(),
            found: printable(found),
            remedy: (!remedy.is_empty()).then(|| printable(remedy)),
        });
    }

    /// Prints what was found.
    ///
    /// # Errors
    ///
    /// Something is wrong, or the output cannot be written.
    pub fn report(&self, report: Report) -> Result<(), Failure> {
        show(&match report {
            Report::Json => json(&(serde_json::to_string(&self.0).unwrap_or_default() + "\n")),
            Report::All => self.0.iter().map(Finding::text).collect(),
            Report::Problems => self.problems().map(Finding::text).collect(),
        })?;
        match self.problems().count() {
            0 => Ok(()),
            wrong => {
                let problems = counted(wrong, "problem");
                Err(OperateCause::ProblemsFound { problems }.into())
            }
        }
    }

    fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter().filter(|finding| !finding.ok)
    }
}

impl Finding {
    fn text(&self) -> String {
        let word = if self.ok { "ok     " } else { "problem" };
        let remedy = self.remedy.as_ref();
        let remedy = remedy.map(|remedy| format!("  remedy: {remedy}\n"));
        let (about, found) = (&self.about, &self.found);
        format!("{word}  {about}: {found}\n{}", remedy.unwrap_or_default())
    }
}
