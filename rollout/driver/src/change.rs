//! What becomes of one row.

use muster_rollout::{Content, Digest, How, Revision, Row, Step, Token, UnitId};

use crate::Rules;

/// A change of one row, as the memory names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// The token that the row gets.
    pub token: Token,
    /// What it says then.
    pub then: Then,
}

/// What a row says once it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Then {
    /// The unit is to carry this.
    Assigned {
        /// The revision.
        revision: Revision,
        /// That revision with the values of the unit.
        digest: Digest,
    },
    /// What the unit has is to be withdrawn.
    Withdrawn(How),
    /// The same as before, under the new token; without a row, nothing (W5).
    Fenced,
    /// Nothing, although the unit still has what the row said: a person gave that up.
    Abandoned,
}

impl Change {
    /// The change that a step asks for, and of which unit's row. `None`: the step is about no row.
    pub fn of(step: &Step) -> Option<(&UnitId, Self)> {
        let (unit, token, then) = match step {
            Step::Assign {
                unit,
                revision,
                digest,
                token,
            } => {
                let (revision, digest) = (*revision, *digest);
                (unit, token, Then::Assigned { revision, digest })
            }
            Step::Withdraw { unit, token, how } => (unit, token, Then::Withdrawn(*how)),
            Step::Fence { unit, token } => (unit, token, Then::Fenced),
            Step::Abandon { unit, token } => (unit, token, Then::Abandoned),
            Step::Evaluate { .. } | Step::Conclude { .. } => return None,
        };
        Some((unit, Self { token: *token, then }))
    }

    /// The row that this one becomes.
    pub fn applied(self, row: Option<Row>) -> Row {
        let content = match self.then {
            Then::Assigned { revision, digest } => Content::Carries {
                revision: Some(revision),
                digest,
            },
            Then::Withdrawn(_) => Content::Withdraw,
            Then::Fenced => row.map_or(Content::Nothing, |row| row.content),
            Then::Abandoned => Content::Nothing,
        };
        Row {
            token: self.token,
            content,
        }
    }

    /// Whether the row has this token, or a greater one: there is nothing to write. Else the write was not sent, is on its way, or was
    /// lost, and is to be sent (again): its token makes it the same one.
    pub fn stands(self, row: Option<Token>) -> bool {
        row >= Some(self.token)
    }
}

/// A change bound to the row that was read: how played worlds carry rows. Real APIs have preconditions of their own for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tested {
    /// The change.
    pub change: Change,
    /// The token of the row that was read. `None`: there was no row.
    pub read: Option<Token>,
}

impl Tested {
    /// The row after this write has come to the row that is there. `None`: the test fails, and nothing is changed (W3).
    pub fn arrive(self, here: Option<Row>, rules: &Rules<'_>) -> Option<Row> {
        let token = here.map(|row| row.token);
        if rules.tests_rows && (token != self.read || self.change.stands(token)) {
            return None;
        }
        let row = self.change.applied(here);
        let kept = token.filter(|_| !rules.fences_raise && self.change.then == Then::Fenced);
        Some(Row {
            token: kept.unwrap_or(row.token),
            ..row
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(token: u64) -> Row {
        Row {
            token: Token(token),
            content: Content::Withdraw,
        }
    }

    fn fence(token: u64, read: Option<u64>) -> Tested {
        Tested {
            change: Change {
                token: Token(token),
                then: Then::Fenced,
            },
            read: read.map(Token),
        }
    }

    #[test]
    fn a_write_changes_the_row_that_was_read_and_its_token_grows() {
        let arrive = |write: Tested, here: Option<Row>| write.arrive(here, &Rules::shipped());
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
        let bare = Row {
            token: Token(1),
            content: Content::Nothing,
        };
        assert_eq!(arrive(fence(1, None), None), Some(bare));
    }
}
