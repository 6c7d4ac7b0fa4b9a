//! Rules on the list of calls that stay in real time, by which clippy finds them in code that is to
//! run in virtual time: it has each public function that uses the process-wide timer.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::Source;
use super::{Breach, breach};
use crate::tree::Tree;

/// File with the list.
const LIST: &str = "integration/clippy/clippy.toml";

/// Function that returns the core of the process-wide timer.
const ORIGIN: [&str; 3] = ["handle", "Handle", "global"];

/// Functions that the list leaves out.
const LEFT_OUT: [&str; 2] = [
    // To clippy such a call is `Default::default`, whatever its type is.
    "DelayQueue::default",
    "Timer::default",
];

/// Checks the list, both ways. Functions that a macro makes are not seen.
pub fn check(tree: &Tree, sources: &[Source], breaches: &mut Vec<Breach>) {
    let functions = functions(tree, sources);
    let listed = tree.get(LIST).unwrap_or_default();
    let listed = (1..).zip(listed.lines()).filter_map(|(number, line)| {
        let path = line.split("path = \"").nth(1)?.split('"').next()?;
        Some((number, path.strip_prefix("tourbillon::")?))
    });
    let listed = listed.collect::<Vec<_>>();
    let found = in_real_time(&functions).filter(|function| function.is_public);
    let found = found.collect::<Vec<_>>();
    for function in &found {
        let name = function.name();
        let is_listed = listed.iter().any(|(_, path)| function.is_named(path));
        if !is_listed && !LEFT_OUT.contains(&name.as_str()) {
            let rule = "a call that stays in real time is not in the list of integration/clippy";
            breaches.push(breach(rule, function.file, function.line, &name));
        }
    }
    let left_out = LEFT_OUT.map(|name| (1, name));
    for (number, path) in listed.iter().chain(&left_out) {
        if !found.iter().any(|function| function.is_named(path)) {
            let rule = "the list of calls that stay in real time has another";
            breaches.push(breach(rule, LIST, *number, path));
        }
    }
}

/// A function of the core.
struct Function<'a> {
    file: &'a str,
    line: usize,
    /// Module of its file, from the root.
    module: Vec<String>,
    /// The type or the trait that it is of, if any, and its name.
    names: Vec<String>,
    is_public: bool,
    /// Paths that its code names, from the root. A name without an import is in its own module.
    calls: Vec<Vec<String>>,
}

impl Function<'_> {
    fn name(&self) -> String {
        self.names.join("::")
    }

    /// Returns whether a path of the list, without the crate's name, is its own. The modules in the
    /// path may be any that export it.
    fn is_named(&self, path: &str) -> bool {
        path.strip_suffix(&self.name()).is_some_and(|before| match before.strip_suffix("::") {
            Some(module) => !module.rsplit("::").next().is_some_and(is_type),
            None => before.is_empty(),
        })
    }

    /// Returns whether a path leads to it, also by a module above that exports it. The root is
    /// excluded: no path leads through it.
    fn is_at(&self, path: &[String]) -> bool {
        path.strip_suffix(self.names.as_slice())
            .is_some_and(|module| !module.is_empty() && self.module.starts_with(module))
    }
}

/// Returns the functions that call the origin, or others that do.
fn in_real_time<'a>(functions: &'a [Function<'a>]) -> impl Iterator<Item = &'a Function<'a>> {
    let is_origin =
        |function: &Function<'_>| function.module.iter().chain(&function.names).eq(&ORIGIN);
    let mut reached = functions.iter().map(is_origin).collect::<Vec<_>>();
    let mut before = 0;
    while before < reached.iter().filter(|is_reached| **is_reached).count() {
        before = reached.iter().filter(|is_reached| **is_reached).count();
        for (place, function) in functions.iter().enumerate() {
            let mut called = functions.iter().zip(&reached).filter(|(_, is_reached)| **is_reached);
            let calls = called.any(|(other, _)| function.calls.iter().any(|to| other.is_at(to)));
            reached[place] |= calls;
        }
    }
    functions
        .iter()
        .zip(reached)
        .filter_map(|(function, is_reached)| is_reached.then_some(function))
}

/// Returns the functions of the core, without tests.
fn functions<'a>(tree: &Tree, sources: &'a [Source]) -> Vec<Function<'a>> {
    let core = sources.iter().filter(|source| source.file.starts_with("src/"));
    let read = core.filter_map(|source| {
        let text = tree.get(&source.file)?;
        Some((source, syn::parse_file(text).ok()?))
    });
    let read = read.collect::<Vec<_>>();
    let mut types = Types(BTreeSet::new());
    read.iter().for_each(|(_, file)| types.visit_file(file));
    let mut found = Vec::new();
    for (source, file) in &read {
        let module = source.file.trim_start_matches("src/").trim_end_matches(".rs");
        let module = module.split('/').filter(|name| *name != "lib").map(str::to_owned);
        let module = module.collect();
        let mut reader = Reader { source, module, types: &types, of: None, found: Vec::new() };
        reader.visit_file(file);
        found.append(&mut reader.found);
    }
    found
}

/// Names of public types.
struct Types(BTreeSet<String>);

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_public(&item.vis) {
            self.0.insert(item.ident.to_string());
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public(&item.vis) {
            self.0.insert(item.ident.to_string());
        }
    }
}

/// Reads the functions of a file.
struct Reader<'a, 'b> {
    source: &'a Source,
    module: Vec<String>,
    types: &'b Types,
    /// The type or the trait that is read, and whether all of its functions are public.
    of: Option<(String, bool)>,
    found: Vec<Function<'a>>,
}

impl Reader<'_, '_> {
    fn function(
        &mut self,
        visibility: Option<&syn::Visibility>,
        item: &impl Spanned,
        name: &syn::Ident,
    ) {
        let lines = item.span().start().line..=item.span().end().line;
        if self.source.is_test(*lines.end()) {
            return;
        }
        let names = self.of.iter().map(|(of, _)| of.clone()).chain([name.to_string()]).collect();
        let within = self.source.paths.iter().filter(|(_, line)| lines.contains(line));
        let function = Function {
            file: &self.source.file,
            line: name.span().start().line,
            module: self.module.clone(),
            names,
            is_public: match visibility {
                Some(visibility) if is_public(visibility) => true,
                _ => self.of.as_ref().is_some_and(|(_, all_public)| *all_public),
            },
            calls: within.flat_map(|(path, _)| self.paths_from_root(path)).collect(),
        };
        self.found.push(function);
    }

    /// Returns the possible paths from the root: by each import, and within this module.
    fn paths_from_root(&self, path: &[String]) -> Vec<Vec<String>> {
        let (first, rest) = path.split_first().expect("a path has a segment");
        let below = |before: &[String], rest: &[String]| [before, rest].concat();
        match (first.as_str(), &self.of) {
            ("crate", _) => vec![rest.to_vec()],
            ("Self", Some((of, _))) => {
                vec![below(&self.module, &below(std::slice::from_ref(of), rest))]
            }
            _ => {
                let paths = self.source.paths.iter().map(|(path, _)| path);
                let imports = paths.filter(|path| path[0] == "crate" && path.last() == Some(first));
                let imported = imports.map(|path| below(&path[1..], rest));
                imported.chain([below(&self.module, path)]).collect()
            }
        }
    }

    fn within(&mut self, of: String, all_public: bool, read: impl FnOnce(&mut Self)) {
        let around = self.of.replace((of, all_public));
        read(self);
        self.of = around;
    }
}

impl<'ast> Visit<'ast> for Reader<'_, '_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let of = of.path.segments.last().expect("a path has a segment").ident.to_string();
        let all_public = item.trait_.is_some() && self.types.0.contains(&of);
        self.within(of, all_public, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let all_public = is_public(&item.vis);
        self.within(item.ident.to_string(), all_public, |reader| {
            visit::visit_item_trait(reader, item);
        });
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(Some(&item.vis), item, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(Some(&item.vis), item, &item.sig.ident);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(None, item, &item.sig.ident);
    }
}

fn is_type(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}
