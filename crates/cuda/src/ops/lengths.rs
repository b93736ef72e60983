//! Checks of what a launcher is given, all findings at once.

use crate::driver::DriverError;

/// What is wrong with one launch's arguments.
#[derive(Debug)]
pub(crate) struct Lengths {
    operation: &'static str,
    findings: Vec<String>,
}

impl Lengths {
    /// Nothing is wrong yet.
    pub(crate) fn of(operation: &'static str) -> Lengths {
        Lengths { operation, findings: Vec::new() }
    }

    /// `name` has `seen` elements and needs `wanted`.
    pub(crate) fn at_least(self, name: &str, seen: usize, wanted: usize) -> Lengths {
        self.require(seen >= wanted, || format!("{name} has {seen} elements, {wanted} are needed"))
    }

    /// Something else that must hold.
    pub(crate) fn require(mut self, holds: bool, finding: impl FnOnce() -> String) -> Lengths {
        if !holds {
            self.findings.push(finding());
        }
        self
    }

    /// An error that names everything found.
    pub(crate) fn check(self) -> Result<(), DriverError> {
        match self.findings.is_empty() {
            true => Ok(()),
            false => {
                let findings = self.findings.join("; ");
                Err(DriverError::Invalid(format!("{}: {findings}", self.operation)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_named() {
        assert_eq!(Lengths::of("op").at_least("x", 8, 8).check(), Ok(()));
        let wrong = Lengths::of("op").at_least("x", 7, 8).require(false, || "y is odd".to_owned());
        let text = wrong.check().unwrap_err().to_string();
        assert_eq!(text, "op: x has 7 elements, 8 are needed; y is odd");
    }
}
