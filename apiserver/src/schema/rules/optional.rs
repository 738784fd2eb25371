//! Optional selection (`a.?b.c`) as optional indexing (`a[?"b"][?"c"]`): the evaluator propagates absent values only
//! for the second form. For maps both are equivalent.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// Rewrites `expression`; returns whether its value is optional because of a selection or index below.
pub(super) fn rewrite(expression: &mut IdedExpr) -> bool {
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                rewrite(target);
            }
            let optional: Vec<bool> = call.args.iter_mut().map(rewrite).collect();
            if call.func_name == operators::OPT_SELECT {
                operators::OPT_INDEX.clone_into(&mut call.func_name);
            }
            let carried = optional.first().copied().unwrap_or(false);
            call.func_name == operators::OPT_INDEX || (call.func_name == operators::INDEX && carried)
        }
        Expr::Select(select) => {
            let optional = rewrite(&mut select.operand) && !select.test;
            if optional {
                let field = LiteralValue::String(select.field.as_str().into());
                let field = IdedExpr {
                    id: expression.id,
                    expr: Expr::Literal(field),
                };
                let operand = std::mem::take(&mut *select.operand);
                let args = vec![operand, field];
                expression.expr = Expr::Call(CallExpr {
                    func_name: operators::OPT_INDEX.to_owned(),
                    target: None,
                    args,
                });
            }
            optional
        }
        Expr::Comprehension(comprehension) => {
            let parts = [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ];
            for part in parts {
                rewrite(part);
            }
            false
        }
        Expr::List(list) => {
            for element in &mut list.elements {
                rewrite(element);
            }
            false
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key);
                    rewrite(&mut entry.value);
                }
            }
            false
        }
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => false,
    }
}
