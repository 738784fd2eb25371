//! Which members of its value an expression uses.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// The members of `self` and `oldSelf` that expressions select, with escaped names; `None` if one of them uses either
/// as a whole.
pub(super) fn selected_members<'a>(
    expressions: impl Iterator<Item = &'a IdedExpr>,
) -> Option<BTreeSet<String>> {
    let mut members = BTreeSet::new();
    for expression in expressions {
        visit(expression, &mut members)?;
    }
    Some(members)
}

fn is_value(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == "self" || name == "oldSelf")
}

fn visit(expression: &IdedExpr, members: &mut BTreeSet<String>) -> Option<()> {
    match &expression.expr {
        Expr::Ident(_) => (!is_value(expression)).then_some(()),
        Expr::Select(select) if is_value(&select.operand) => {
            members.insert(select.field.clone());
            Some(())
        }
        Expr::Select(select) => visit(&select.operand, members),
        Expr::Call(call) => {
            let target = call.target.iter().map(|target| &**target);
            all(target.chain(&call.args), members)
        }
        Expr::Comprehension(parts) => all(
            [
                &parts.iter_range,
                &parts.accu_init,
                &parts.loop_cond,
                &parts.loop_step,
                &parts.result,
            ],
            members,
        ),
        Expr::List(list) => all(&list.elements, members),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => all([&entry.key, &entry.value], members),
            EntryExpr::StructField(_) => None,
        }),
        Expr::Struct(_) => None,
        Expr::Literal(_) | Expr::Unspecified => Some(()),
    }
}

fn all<'a>(
    expressions: impl IntoIterator<Item = &'a IdedExpr>,
    members: &mut BTreeSet<String>,
) -> Option<()> {
    expressions
        .into_iter()
        .try_for_each(|expression| visit(expression, members))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn only_what_is_selected_is_needed() {
        let check = |text: &str, expect: Option<&[&str]>| {
            let members = selected_members([parse(text).unwrap()].iter());
            let expect = expect.map(|members| members.iter().map(|&member| member.to_owned()).collect());
            assert_eq!(members, expect, "{text}");
        };
        check("has(self.a) != has(self.b)", Some(&["a", "b"]));
        check("self.a.b >= oldSelf.c", Some(&["a", "c"]));
        check("self.items.all(i, i.name != self.name)", Some(&["items", "name"]));
        check(
            "{'a': self.a}.size() == 1 && [self.b].size() == 1",
            Some(&["a", "b"]),
        );
        check("self == oldSelf", None);
        check("self.all(k, k != 'a')", None);
        check("self['a'] == 1", None);
        check("self.?a.orValue(1) == 1", None);
        check("oldSelf.hasValue() || self.n == 0", None);
        check("1 == 1", Some(&[]));
    }
}
