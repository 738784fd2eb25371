//! The change of one assignment.

use muster_rollout::{Assignment, Content, Digest, How, Revision, Step, Token, UnitId};

use crate::Rules;

/// A change of one assignment, as the memory names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// The new token of the assignment.
    pub token: Token,
    /// The new content.
    pub then: NewContent,
}

/// The content of an assignment after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NewContent {
    /// The unit should have this content.
    Assigned {
        /// The revision.
        revision: Revision,
        /// That revision with the values of the unit.
        digest: Digest,
    },
    /// The unit's content must be withdrawn.
    Withdrawn(How),
    /// The same content under the new token; without an assignment, an empty one (W5).
    Fenced,
    /// Empty, although the unit still has the content: it was abandoned.
    Abandoned,
}

impl Change {
    /// The unit and the change that a step asks for; `None` if the step changes no assignment.
    pub fn of(step: &Step) -> Option<(&UnitId, Self)> {
        let (unit, token, then) = match step {
            Step::Assign {
                unit,
                revision,
                digest,
                token,
            } => {
                let (revision, digest) = (*revision, *digest);
                (unit, token, NewContent::Assigned { revision, digest })
            }
            Step::Withdraw { unit, token, how } => (unit, token, NewContent::Withdrawn(*how)),
            Step::Fence { unit, token } => (unit, token, NewContent::Fenced),
            Step::Abandon { unit, token } => (unit, token, NewContent::Abandoned),
            Step::Evaluate { .. } | Step::Conclude { .. } => return None,
        };
        Some((unit, Self { token: *token, then }))
    }

    /// The assignment after the change.
    pub fn applied(self, row: Option<Assignment>) -> Assignment {
        let content = match self.then {
            NewContent::Assigned { revision, digest } => Content::Carries {
                revision: Some(revision),
                digest,
            },
            NewContent::Withdrawn(_) => Content::Withdraw,
            NewContent::Fenced => row.map_or(Content::Nothing, |row| row.content),
            NewContent::Abandoned => Content::Nothing,
        };
        Assignment {
            token: self.token,
            content,
        }
    }

    /// Whether the assignment has this token or a greater one, so nothing must be written. Otherwise the write was not
    /// sent, is pending, or was lost, and must be sent (again): with its token it is the same write.
    pub fn is_written(self, row: Option<Token>) -> bool {
        row >= Some(self.token)
    }
}

/// A change with the precondition of the assignment that was read, for simulated writes. Real APIs have preconditions
/// of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tested {
    /// The change.
    pub change: Change,
    /// The token of the assignment that was read; `None` if there was none.
    pub read: Option<Token>,
}

impl Tested {
    /// The assignment after this write arrives at the existing one; `None` if the precondition fails and nothing
    /// changes (W3).
    pub fn arrive(self, here: Option<Assignment>, rules: &Rules<'_>) -> Option<Assignment> {
        let token = here.map(|row| row.token);
        if rules.tests_assignments && (token != self.read || self.change.is_written(token)) {
            return None;
        }
        let row = self.change.applied(here);
        let kept = token.filter(|_| !rules.fences_raise && self.change.then == NewContent::Fenced);
        Some(Assignment {
            token: kept.unwrap_or(row.token),
            ..row
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(token: u64) -> Assignment {
        Assignment {
            token: Token(token),
            content: Content::Withdraw,
        }
    }

    fn fence(token: u64, read: Option<u64>) -> Tested {
        Tested {
            change: Change {
                token: Token(token),
                then: NewContent::Fenced,
            },
            read: read.map(Token),
        }
    }

    #[test]
    fn a_write_changes_the_row_that_was_read_and_its_token_grows() {
        let arrive = |write: Tested, here: Option<Assignment>| write.arrive(here, &Rules::shipped());
        assert_eq!(arrive(fence(3, Some(2)), Some(row(2))), Some(row(3)));
        assert_eq!(arrive(fence(3, Some(1)), Some(row(2))), None, "another was there");
        assert_eq!(arrive(fence(3, None), Some(row(2))), None, "there was no row");
        assert_eq!(arrive(fence(3, Some(2)), None), None, "the row is gone");
        assert_eq!(
            arrive(fence(2, Some(2)), Some(row(2))),
            None,
            "the token does not grow"
        );
        assert_eq!(arrive(fence(2, Some(3)), Some(row(3))), None, "it would fall");
        let bare = Assignment {
            token: Token(1),
            content: Content::Nothing,
        };
        assert_eq!(arrive(fence(1, None), None), Some(bare));
    }
}
