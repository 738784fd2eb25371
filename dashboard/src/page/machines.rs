//! The page of machines that are updated in place: each UpdatePlan, and the progress of its Machines.

use maud::{Markup, html};

use super::{Page, Part, layout, parts};
use crate::{MachineView, Snapshot, UpdateView, shell_word};

pub(super) fn page(snapshot: &Snapshot) -> Page {
    let hero = html! { section #hero { h1 { "Machines" } p { "Machines that Cluster API updates in place, by UpdatePlan." } } };
    let updates = html! {
        div #updates {
            @if snapshot.objects.update_plans.is_empty() {
                p.faint { "There is no UpdatePlan in namespace " (parts::text(&snapshot.namespace)) "." }
            }
            @for view in &snapshot.updates() { (update(view)) }
        }
    };
    let at = shell_word(&snapshot.namespace);
    let commands = [("with kubectl", format!("kubectl get updateplans -n {at}"))];
    let commands = html! {
        section #commands aria-labelledby="commands-title" { h2 #commands-title { "As commands" } (parts::commands(commands)) }
    };
    Page {
        title: "Machines".to_owned(),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            Part::unsplit("hero", hero),
            Part::unsplit("updates", updates),
            Part::unsplit("commands", commands),
        ],
    }
}

fn update(view: &UpdateView) -> Markup {
    html! {
        section aria-label=(parts::text(&view.name)) {
            h2 {
                (parts::badge(view.shape, view.shape.word())) " " (parts::text(&view.source))
                @if let Some(target) = &view.target { " to " (parts::text(target)) }
            }
            p { (view.updated) " of " (view.machines.len()) " machines are updated. Steps: " (parts::text(&view.steps.join(", "))) "." }
            div.scroll tabindex="0" role="region" aria-label="Machines" {
                table {
                    thead { tr { @for title in ["Machine", "State", "Step", "Since", "Last message"] { th scope="col" { (title) } } } }
                    tbody { @for machine in &view.machines { (row(machine)) } }
                }
            }
        }
    }
}

fn row(machine: &MachineView) -> Markup {
    html! {
        tr {
            th scope="row" { (parts::text(&machine.name)) }
            td { (parts::badge(machine.shape, &machine.state)) }
            td { @if let Some(step) = &machine.step { (parts::text(step)) } }
            td { @if let Some(since) = machine.since { (parts::time(since)) } }
            td {
                @if let Some(message) = &machine.message { (parts::message(message)) }
                @if let Some(command) = &machine.command { "Next: " (parts::command(command)) }
            }
        }
    }
}
