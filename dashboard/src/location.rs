//! URLs of pages, relative to the root of the dashboard: no link in a page begins with `/`.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::Kind;

/// Characters that are percent-encoded in a path segment.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'\'')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');
/// Maximum bytes of a path segment: a name has at most 253, each three bytes when percent-encoded.
const MAX_SEGMENT: usize = 1_024;

/// A module by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModuleRef {
    /// Kind of the module.
    pub kind: Kind,
    /// Name of the module.
    pub name: String,
}

/// A page of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PageLocation {
    /// The whole fleet.
    Fleet,
    /// Events of the fleet.
    Activity,
    /// Zone groups of this cluster.
    Zones,
    /// Machines that are updated in place.
    Machines,
    /// A module.
    Module(ModuleRef),
    /// A revision of a module, by digits of its hash.
    Revision(ModuleRef, String),
    /// A module on a cluster.
    Assignment(ModuleRef, String),
    /// A cluster.
    Cluster(String),
    /// The nodes of this cluster, and the NodeModules on them.
    Nodes,
    /// A node of this cluster.
    Node(String),
}

impl ModuleRef {
    /// The argument of commands about it: `module/web`.
    pub fn command_argument(&self) -> String {
        self.kind.address(&self.name)
    }

    /// The namespace flag of commands about it, with a leading space; empty for cluster-scoped kinds.
    pub fn within(&self, namespace: &str) -> String {
        self.kind.within(namespace)
    }

    fn path(&self) -> String {
        let kind = self.kind.as_str().to_lowercase();
        format!("{kind}/{}", encoded(&self.name))
    }
}

impl PageLocation {
    /// The page of a unit: a cluster, or a node for NodeModules.
    pub fn unit(kind: Kind, name: String) -> Self {
        match kind {
            Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => Self::Cluster(name),
            Kind::NodeModule => Self::Node(name),
        }
    }

    /// The page of a path without the leading `/`; `None` if there is no such page.
    pub fn parse(path: &str) -> Option<Self> {
        if path.is_empty() {
            return Some(Self::Fleet);
        }
        let segments: Vec<String> = path.split('/').map(decoded).collect::<Option<_>>()?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments[..] {
            ["activity"] => Some(Self::Activity),
            ["zones"] => Some(Self::Zones),
            ["machines"] => Some(Self::Machines),
            ["nodes"] => Some(Self::Nodes),
            ["cluster", name] => Some(Self::Cluster(name.to_owned())),
            ["node", name] => Some(Self::Node(name.to_owned())),
            [kind, name] => Some(Self::Module(module(kind, name)?)),
            [kind, name, "revision", revision] => {
                Some(Self::Revision(module(kind, name)?, revision.to_owned()))
            }
            [kind, name, "on", cluster] => Some(Self::Assignment(module(kind, name)?, cluster.to_owned())),
            _ => None,
        }
    }

    /// Path of the page, from the root of the dashboard, without a leading `/`.
    pub fn path(&self) -> String {
        match self {
            Self::Fleet => String::new(),
            Self::Activity => "activity".to_owned(),
            Self::Zones => "zones".to_owned(),
            Self::Machines => "machines".to_owned(),
            Self::Module(module) => module.path(),
            Self::Revision(module, revision) => format!("{}/revision/{}", module.path(), encoded(revision)),
            Self::Assignment(module, cluster) => format!("{}/on/{}", module.path(), encoded(cluster)),
            Self::Cluster(name) => format!("cluster/{}", encoded(name)),
            Self::Nodes => "nodes".to_owned(),
            Self::Node(name) => format!("node/{}", encoded(name)),
        }
    }

    /// Relative URL from this page to the root of the dashboard: `./`, `../` and so on.
    pub fn root(&self) -> String {
        match self.path().matches('/').count() {
            0 => "./".to_owned(),
            depth => "../".repeat(depth),
        }
    }

    /// Relative URL from this page to another.
    pub fn link(&self, to: &Self) -> String {
        format!("{}{}", self.root(), to.path())
    }
}

fn module(kind: &str, name: &str) -> Option<ModuleRef> {
    let kind = match kind {
        "module" => Kind::Module,
        "bootstrapmodule" => Kind::BootstrapModule,
        "clusterupgrade" => Kind::ClusterUpgrade,
        "nodemodule" => Kind::NodeModule,
        _ => return None,
    };
    Some(ModuleRef {
        kind,
        name: name.to_owned(),
    })
}

fn encoded(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

/// Decodes a path segment; `None` if it is empty, invalid or a path traversal.
fn decoded(segment: &str) -> Option<String> {
    if segment.len() > MAX_SEGMENT {
        return None;
    }
    let text = percent_decode_str(segment).decode_utf8().ok()?; // not valid text: no name
    let leads_elsewhere = matches!(&*text, "" | "." | "..");
    (!leads_elsewhere && !text.contains(char::is_control)).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let web = || ModuleRef {
            kind: Kind::Module,
            name: "web".to_owned(),
        };
        for (place, path, root) in [
            (PageLocation::Fleet, "", "./"),
            (PageLocation::Activity, "activity", "./"),
            (PageLocation::Zones, "zones", "./"),
            (PageLocation::Machines, "machines", "./"),
            (PageLocation::Module(web()), "module/web", "../"),
            (
                PageLocation::Revision(web(), "1a2b3c4d".to_owned()),
                "module/web/revision/1a2b3c4d",
                "../../../",
            ),
            (
                PageLocation::Assignment(web(), "a/b <c>".to_owned()),
                "module/web/on/a%2Fb%20%3Cc%3E",
                "../../../",
            ),
            (PageLocation::Cluster("eu-1".to_owned()), "cluster/eu-1", "../"),
            (PageLocation::Nodes, "nodes", "./"),
            (PageLocation::Node("n1".to_owned()), "node/n1", "../"),
            (
                PageLocation::Module(ModuleRef {
                    kind: Kind::NodeModule,
                    name: "fabric".to_owned(),
                }),
                "nodemodule/fabric",
                "../",
            ),
        ] {
            assert_eq!((&*place.path(), &*place.root()), (path, root));
            assert_eq!(PageLocation::parse(path), Some(place));
        }
    }

    #[test]
    fn what_is_no_page() {
        for path in [
            "/",
            "..",
            "../",
            "module",
            "module/",
            "module/..",
            "module/%2e%2e",
            "cluster/a/b",
            "node",
            "node/",
            "nodes/",
            "node/a/b",
            "gitrepository/web",
            "cluster/%00",
            "cluster/%ff",
            "cluster/%0a",
            "activity/",
            "module/web/on/",
            "module//on/x",
        ] {
            assert_eq!(PageLocation::parse(path), None, "{path:?}");
        }
        assert_eq!(
            PageLocation::parse(&format!("cluster/{}", "a".repeat(2_000))),
            None
        );
    }
}
