//! Evaluates an expression. Each step of a loop checks for a stop, and created values are counted ([`Budget`]).

use std::{cmp::Ordering, collections::BTreeMap, mem, rc::Rc};

use cel::{
    IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, MapExpr, SelectExpr, operators as op,
    },
};

use crate::{
    Stop,
    budget::Budget,
    fault::{Evaluated, Fault, no, no_overload, optional, overflow},
    functions::{self, NAMESPACES},
    time,
    value::{self, Key, Map, Order, TYPES, Value},
};

/// Evaluates an expression with these variables.
pub(crate) fn evaluate(expression: &IdedExpr, variables: &BTreeMap<String, Value>, stop: &Stop) -> Evaluated {
    Machine {
        variables,
        budget: Budget::new(stop),
        scope: Vec::new(),
    }
    .eval(expression)
}

struct Machine<'a> {
    variables: &'a BTreeMap<String, Value>,
    budget: Budget<'a>,
    /// The variables of comprehensions, innermost last.
    scope: Vec<(&'a str, Evaluated)>,
}

impl<'a> Machine<'a> {
    fn eval(&mut self, expression: &'a IdedExpr) -> Evaluated {
        match &expression.expr {
            Expr::Literal(literal) => Ok(value::constant(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => {
                let outside = self.scope.len();
                let value = self.comprehension(comprehension);
                self.scope.truncate(outside);
                value
            }
            // The parser already rejects it.
            Expr::Struct(_) | Expr::Unspecified => no("messages are not supported"),
        }
    }

    fn variable(&self, name: &str) -> Evaluated {
        if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| *known == name) {
            return value.clone();
        }
        if let Some(value) = self.variables.get(name) {
            return Ok(value.clone());
        }
        let kind = TYPES.iter().find(|kind| **kind == name);
        kind.map_or_else(
            || no(format!("no such attribute: {name}")),
            |kind| Ok(Value::Type(kind)),
        )
    }

    fn bool(&mut self, expression: &'a IdedExpr, name: &str) -> Evaluated<bool> {
        match self.eval(expression)? {
            Value::Bool(value) => Ok(value),
            _ => no_overload(name),
        }
    }

    fn select(&mut self, select: &'a SelectExpr) -> Evaluated {
        let operand = self.eval(&select.operand)?;
        let key = Key::Text(select.field.as_str().into());
        if select.test {
            return Ok(Value::Bool(match &operand {
                Value::Map(map) => map.contains_key(&key),
                Value::Optional(Some(value)) => matches!(&**value, Value::Map(map) if map.contains_key(&key)),
                Value::List(_) => return no_overload("has"),
                _ => false,
            }));
        }
        match &operand {
            Value::Map(map) => map
                .get(&key)
                .cloned()
                .map_or_else(|| no(format!("no such key: {}", select.field)), Ok),
            Value::Optional(value) => present(value.as_deref(), &Value::text(&select.field)),
            _ => no(format!("no such key: {}", select.field)),
        }
    }

    fn list(&mut self, list: &'a ListExpr) -> Evaluated {
        let mut values = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.eval(element)?;
            if list.optional_indices.contains(&index) {
                values.extend(optional(&value, "[?_]")?.cloned());
            } else {
                values.push(value);
            }
        }
        self.budget.make(values.len())?;
        Ok(Value::list(values))
    }

    fn map(&mut self, map: &'a MapExpr) -> Evaluated {
        let mut values = Map::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return no("messages are not supported");
            };
            let key = self.eval(&entry.key)?.key();
            let key = key.map_or_else(|| no("a map has no keys of this type"), Ok)?;
            let mut value = Some(self.eval(&entry.value)?);
            if entry.optional {
                let inner = value.as_ref().map(|value| optional(value, "{?_}")).transpose()?;
                value = inner.flatten().cloned();
            }
            if let Some(value) = value {
                values.insert(key, value);
            }
        }
        self.budget.make(values.len())?;
        Ok(Value::Map(Rc::new(values)))
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) -> Evaluated {
        let items = match self.eval(&comprehension.iter_range)? {
            Value::List(list) => list,
            Value::Map(map) => Rc::new(map.keys().map(Value::from).collect()),
            _ => return no_overload("a comprehension"),
        };
        let start = self.eval(&comprehension.accu_init);
        let at = self.scope.len();
        self.scope.push((&comprehension.accu_var, start));
        for item in items.iter() {
            self.budget.go_on()?;
            if !self.bool(&comprehension.loop_cond, "a comprehension")? {
                break;
            }
            self.scope.push((&comprehension.iter_var, Ok(item.clone())));
            let next = self.step(&comprehension.loop_step, at, &comprehension.accu_var);
            self.scope.truncate(at + 1);
            if let Err(fault @ (Fault::Stopped | Fault::TooLarge)) = next {
                return Err(fault);
            }
            self.scope[at].1 = next;
        }
        self.eval(&comprehension.result)
    }

    /// One step of a loop. The accumulator of `map` and `filter` is not copied for each element.
    fn step(&mut self, step: &'a IdedExpr, at: usize, accu: &str) -> Evaluated {
        let Expr::Call(call) = &step.expr else {
            return self.eval(step);
        };
        let is_accu = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name == accu);
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::CONDITIONAL, [condition, then, otherwise]) if is_accu(otherwise) => {
                if self.bool(condition, op::CONDITIONAL)? {
                    self.step(then, at, accu)
                } else {
                    self.take(at)
                }
            }
            (op::ADD, [gathered, added]) if is_accu(gathered) => {
                let Expr::List(added) = &added.expr else {
                    return self.eval(step);
                };
                let added = self.list(added)?;
                match (self.take(at)?, added) {
                    (Value::List(mut gathered), Value::List(added)) => {
                        Rc::make_mut(&mut gathered).extend(added.iter().cloned());
                        Ok(Value::List(gathered))
                    }
                    (gathered, added) => self.binary(op::ADD, &gathered, &added),
                }
            }
            _ => self.eval(step),
        }
    }

    fn take(&mut self, at: usize) -> Evaluated {
        mem::replace(&mut self.scope[at].1, Ok(Value::Null))
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (op::CONDITIONAL, [condition, then, otherwise]) => {
                let branch = if self.bool(condition, name)? {
                    then
                } else {
                    otherwise
                };
                self.eval(branch)
            }
            (op::LOGICAL_AND, args) => self.logic(args, name, false),
            (op::LOGICAL_OR, args) => self.logic(args, name, true),
            (op::NOT_STRICTLY_FALSE, [arg]) => match self.eval(arg) {
                Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                Ok(_) | Err(Fault::NoValue(_)) => Ok(Value::Bool(true)),
                Err(fault) => Err(fault),
            },
            (op::LOGICAL_NOT, [arg]) => Ok(Value::Bool(!self.bool(arg, name)?)),
            (op::NEGATE, [arg]) => match self.eval(arg)? {
                Value::Int(value) => value
                    .checked_neg()
                    .map_or_else(overflow, |value| Ok(Value::Int(value))),
                Value::Double(value) => Ok(Value::Double(-value)),
                Value::Duration(value) => value
                    .checked_neg()
                    .map_or_else(overflow, |value| Ok(Value::Duration(value))),
                _ => no_overload(name),
            },
            (
                op::EQUALS
                | op::NOT_EQUALS
                | op::LESS
                | op::LESS_EQUALS
                | op::GREATER
                | op::GREATER_EQUALS
                | op::ADD
                | op::SUBSTRACT
                | op::MULTIPLY
                | op::DIVIDE
                | op::MODULO
                | op::INDEX
                | op::OPT_INDEX
                | op::OPT_SELECT
                | op::IN,
                [a, b],
            ) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                self.binary(name, &a, &b)
            }
            _ => self.function(call),
        }
    }

    /// `false` decides `&&` and `true` decides `||`, on either side; an error counts only if neither side decides.
    fn logic(&mut self, args: &'a [IdedExpr], name: &str, decides: bool) -> Evaluated {
        let mut fault = None;
        for arg in args {
            match self.bool(arg, name) {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                Err(Fault::NoValue(message)) => fault = fault.or(Some(Fault::NoValue(message))),
                Err(fault) => return Err(fault),
            }
        }
        fault.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn binary(&mut self, name: &str, a: &Value, b: &Value) -> Evaluated {
        let ordered = |holds: fn(Ordering) -> bool| match value::compare(a, b) {
            Some(Order::Is(order)) => Ok(Value::Bool(holds(order))),
            Some(Order::NotANumber) => no("NaN has no order"),
            None => no_overload(name),
        };
        match name {
            op::EQUALS => Ok(Value::Bool(value::equal(a, b))),
            op::NOT_EQUALS => Ok(Value::Bool(!value::equal(a, b))),
            op::LESS => ordered(Ordering::is_lt),
            op::LESS_EQUALS => ordered(Ordering::is_le),
            op::GREATER => ordered(Ordering::is_gt),
            op::GREATER_EQUALS => ordered(Ordering::is_ge),
            op::INDEX => match a {
                Value::Optional(inner) => present(inner.as_deref(), b),
                _ => item(a, b)?.map_or_else(|| no("no such key, or index out of bounds"), Ok),
            },
            op::OPT_INDEX | op::OPT_SELECT => match a {
                Value::Optional(inner) => present(inner.as_deref(), b),
                _ => present(Some(a), b),
            },
            op::IN => self.budget.contains(a, b),
            _ => self.arithmetic(name, a, b),
        }
    }

    fn arithmetic(&mut self, name: &str, a: &Value, b: &Value) -> Evaluated {
        use Value::{Bytes, Double, Int, List, Text, Uint};
        match (name, a, b) {
            (op::ADD, Text(a), Text(b)) => {
                self.budget.make(a.len() + b.len())?;
                Ok(Value::text([&**a, &**b].concat()))
            }
            (op::ADD, Bytes(a), Bytes(b)) => {
                self.budget.make(a.len() + b.len())?;
                Ok(Bytes([&**a, &**b].concat().into()))
            }
            (op::ADD, List(a), List(b)) => {
                self.budget.make(a.len() + b.len())?;
                Ok(Value::list([a.as_slice(), b.as_slice()].concat()))
            }
            (op::DIVIDE | op::MODULO, Int(_), Int(0)) | (op::DIVIDE | op::MODULO, Uint(_), Uint(0)) => {
                no("division by zero")
            }
            (_, Int(a), Int(b)) => {
                let value = match name {
                    op::ADD => a.checked_add(*b),
                    op::SUBSTRACT => a.checked_sub(*b),
                    op::MULTIPLY => a.checked_mul(*b),
                    op::DIVIDE => a.checked_div(*b),
                    _ => a.checked_rem(*b),
                };
                value.map_or_else(overflow, |value| Ok(Int(value)))
            }
            (_, Uint(a), Uint(b)) => {
                let value = match name {
                    op::ADD => a.checked_add(*b),
                    op::SUBSTRACT => a.checked_sub(*b),
                    op::MULTIPLY => a.checked_mul(*b),
                    op::DIVIDE => a.checked_div(*b),
                    _ => a.checked_rem(*b),
                };
                value.map_or_else(overflow, |value| Ok(Uint(value)))
            }
            (op::ADD, Double(a), Double(b)) => Ok(Double(a + b)),
            (op::SUBSTRACT, Double(a), Double(b)) => Ok(Double(a - b)),
            (op::MULTIPLY, Double(a), Double(b)) => Ok(Double(a * b)),
            (op::DIVIDE, Double(a), Double(b)) => Ok(Double(a / b)),
            (op::ADD, _, _) => time::add(a, b).unwrap_or_else(|| no_overload(name)),
            (op::SUBSTRACT, _, _) => time::subtract(a, b).unwrap_or_else(|| no_overload(name)),
            _ => no_overload(name),
        }
    }

    fn function(&mut self, call: &'a CallExpr) -> Evaluated {
        let name = call.func_name.as_str();
        let Some(target) = call.target.as_deref() else {
            let args = self.each(&call.args)?;
            return functions::function(&mut self.budget, name, &args);
        };
        if let Expr::Ident(namespace) = &target.expr
            && NAMESPACES.contains(&namespace.as_str())
        {
            let args = self.each(&call.args)?;
            return functions::function(&mut self.budget, &format!("{namespace}.{name}"), &args);
        }
        let this = self.eval(target)?;
        match (name, call.args.as_slice()) {
            ("optMap" | "optFlatMap", [variable, value]) => {
                let Expr::Ident(variable) = &variable.expr else {
                    return no_overload(name);
                };
                let Some(inner) = optional(&this, name)?.cloned() else {
                    return Ok(Value::Optional(None));
                };
                let outside = self.scope.len();
                self.scope.push((variable, Ok(inner)));
                let value = self.eval(value);
                self.scope.truncate(outside);
                if name == "optMap" {
                    value.map(Value::some)
                } else {
                    value
                }
            }
            // On a value that is not an optional they return the value itself, like cel-go.
            ("or" | "orValue", [otherwise]) => match &this {
                Value::Optional(None) => self.eval(otherwise),
                Value::Optional(Some(inner)) if name == "orValue" => Ok((**inner).clone()),
                _ => Ok(this),
            },
            (_, args) => {
                let args = self.each(args)?;
                functions::method(&mut self.budget, name, &this, &args)
            }
        }
    }

    fn each(&mut self, args: &'a [IdedExpr]) -> Evaluated<Vec<Value>> {
        args.iter().map(|arg| self.eval(arg)).collect()
    }
}

/// The value of a map at a key, or of a list at an index.
fn item(container: &Value, key: &Value) -> Evaluated<Option<Value>> {
    match container {
        Value::Map(map) => match key.key() {
            Some(key) => Ok(map.get(&key).cloned()),
            None if matches!(key, Value::Double(_)) => Ok(None),
            None => no("a map has no keys of this type"),
        },
        Value::List(list) => match key.integral() {
            Some(index) => Ok(usize::try_from(index)
                .ok()
                .and_then(|index| list.get(index).cloned())),
            None => no("an index must be a whole number"),
        },
        _ => no_overload("_[_]"),
    }
}

/// The same as an optional. A value that is not a container yields none.
fn present(container: Option<&Value>, key: &Value) -> Evaluated {
    Ok(Value::Optional(match container {
        Some(container @ (Value::Map(_) | Value::List(_))) => item(container, key)?.map(Rc::new),
        Some(_) | None => None,
    }))
}
