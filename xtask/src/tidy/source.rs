//! Rust files in the compiler's view: with their modules, and without code of tests alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token, UseTree};

use crate::tree::Tree;

/// Files that were read before, by path, module and text: tests read most of them many times over.
static READ: LazyLock<Mutex<HashMap<Key, Read>>> = LazyLock::new(Mutex::default);

type Key = (String, Vec<String>, String);
type Read = (Source, Vec<Child>);

/// A file of a crate's product code.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the repository's root.
    pub file: String,
    /// Names of the modules that lead to its own, from the crate's root.
    pub module: Vec<String>,
    /// Every path in its code, including imports, unchanged but for `self` and `super`: these are
    /// resolved, so that a path of the crate begins with `crate`. A path that begins with `$crate`
    /// is of a macro for other crates, and these see the root alone.
    pub paths: Vec<(Vec<String>, usize)>,
    /// Fields and statics, with the names in their types.
    pub places: Vec<Place>,
    /// Lines of unsafe blocks, functions and implementations.
    pub unsafe_lines: Vec<usize>,
    /// Functions of more than 50 lines, from the signature to the closing brace, by their first.
    pub long_functions: Vec<(String, usize)>,
    /// Lines, counted from 1, of items that only tests have.
    pub test_lines: Vec<std::ops::RangeInclusive<usize>>,
}

/// A field or a static.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name; that of its type for a field without one.
    pub name: String,
    pub line: usize,
    /// Names in its type, such as `Option` and `Mutex`.
    pub types: Vec<String>,
    /// True if it only refers to its names.
    pub is_reference: bool,
}

impl Source {
    /// Returns whether a line belongs to a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }
}

/// Reads the product code of a crate, beginning at its roots, such as `src/lib.rs`.
pub fn read(tree: &Tree, roots: &[&str]) -> Result<Vec<Source>, String> {
    let mut found = BTreeMap::new();
    for root in roots {
        walk(tree, root, &[], &mut found)?;
    }
    Ok(found.into_values().collect())
}

fn walk(
    tree: &Tree,
    file: &str,
    module: &[String],
    found: &mut BTreeMap<String, Source>,
) -> Result<(), String> {
    if found.contains_key(file) {
        return Ok(());
    }
    let text = tree.get(file).ok_or_else(|| format!("{file}: there is no such file"))?;
    let key = (file.to_owned(), module.to_vec(), text.to_owned());
    let known = READ.lock().expect("no reader panics").get(&key).cloned();
    let (source, children) = match known {
        Some(read) => read,
        None => {
            let read = parse(file, module, text)?;
            READ.lock().expect("no reader panics").insert(key, read.clone());
            read
        }
    };
    found.insert(file.to_owned(), source);
    for child in children {
        let inside = child.module[module.len()..].join("/");
        let (folder, stem) = file.rsplit_once('/').unwrap_or(("", file));
        let folder = match stem {
            "lib.rs" | "main.rs" => folder.to_owned(),
            _ => file.trim_end_matches(".rs").to_owned(),
        };
        let mut candidates = vec![format!("{folder}/{inside}.rs")];
        let above = inside.rsplit_once('/').map(|(above, _)| format!("{folder}/{above}"));
        // Where no module stands around it, the attribute counts from the file's own folder.
        let own = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let above = above.as_deref().unwrap_or(own);
        candidates.extend(child.paths.iter().map(|path| plain(&format!("{above}/{path}"))));
        let there = candidates.iter().filter(|file| tree.get(file).is_some()).collect::<Vec<_>>();
        if there.is_empty() {
            return Err(format!("{file}: no file of the module {inside}"));
        }
        for file in there {
            walk(tree, file, &child.module, found)?;
        }
    }
    Ok(())
}

fn parse(file: &str, module: &[String], text: &str) -> Result<Read, String> {
    let parsed = syn::parse_file(text)
        .map_err(|error| format!("{file}:{}: {error}", error.span().start().line))?;
    let source = Source {
        file: file.to_owned(),
        module: module.to_vec(),
        paths: Vec::new(),
        places: Vec::new(),
        unsafe_lines: Vec::new(),
        long_functions: Vec::new(),
        test_lines: Vec::new(),
    };
    let mut reader = Reader { module: module.to_vec(), children: Vec::new(), read: Some(source) };
    reader.visit_file(&parsed);
    Ok((reader.read.expect("a file is being read"), reader.children))
}

/// Returns a path without `..`.
fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// A module whose code is in another file.
#[derive(Clone)]
struct Child {
    module: Vec<String>,
    /// Values of its attributes `path`.
    paths: Vec<String>,
}

struct Reader {
    /// Module of the item that is visited.
    module: Vec<String>,
    children: Vec<Child>,
    read: Option<Source>,
}

impl Reader {
    fn source(&mut self) -> &mut Source {
        self.read.as_mut().expect("a file is being read")
    }

    /// Notes an item that only tests have. Returns whether it is one.
    fn skips(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let skips = attributes.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<Meta>().is_ok_and(|meta| holds(&meta) == Some(false))
        });
        if skips {
            let span = item.span();
            let first = attributes.iter().map(|attribute| attribute.span().start().line).min();
            let first = first.unwrap_or(span.start().line);
            self.source().test_lines.push(first..=span.end().line);
        }
        skips
    }

    /// Notes a function, if it is long.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        if last - first >= 50 {
            self.source().long_functions.push((signature.ident.to_string(), first));
        }
    }

    /// Notes a path.
    fn path(&mut self, segments: Vec<String>, line: usize) {
        let up = segments.iter().take_while(|segment| *segment == "super").count();
        let own = up > 0 || segments.first().is_some_and(|first| first == "self");
        let segments = if own && up <= self.module.len() {
            let above = self.module[..self.module.len() - up].iter().cloned();
            let below = segments.into_iter().skip(up.max(1));
            std::iter::once("crate".to_owned()).chain(above).chain(below).collect()
        } else {
            segments
        };
        self.source().paths.push((segments, line));
    }

    fn imports(&mut self, tree: &UseTree, before: &[String]) {
        let with = |last: String| before.iter().cloned().chain([last]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.imports(&path.tree, &with(path.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imports(tree, before)),
            UseTree::Name(name) => {
                self.path(with(name.ident.to_string()), name.span().start().line)
            }
            UseTree::Rename(name) => {
                self.path(with(name.ident.to_string()), name.span().start().line);
            }
            UseTree::Glob(glob) => self.path(with("*".to_owned()), glob.span().start().line),
        }
    }

    /// Notes a field or a static.
    fn place(&mut self, name: &syn::Ident, of: &syn::Type) {
        struct Names(Vec<String>);
        impl<'ast> Visit<'ast> for Names {
            fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
                self.0.push(segment.ident.to_string());
                visit::visit_path_segment(self, segment);
            }
        }
        let mut names = Names(Vec::new());
        names.visit_type(of);
        let place = Place {
            name: name.to_string(),
            line: name.span().start().line,
            types: names.0,
            is_reference: matches!(of, syn::Type::Reference(_)),
        };
        self.source().places.push(place);
    }

    /// Notes the paths among the tokens that a macro takes.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::<String>::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if path.len() == 1 && path[0] == "$" => {
                    path[0].push_str(&ident.to_string());
                    continue;
                }
                TokenTree::Ident(ident) if path.is_empty() || colons == 2 => {
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                _ => {}
            }
            self.path_of_tokens(&mut path, line);
            colons = 0;
            match token {
                TokenTree::Ident(ident) => {
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(punct) if punct.as_char() == '$' => {
                    line = punct.span().start().line;
                    path.push("$".to_owned());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        self.path_of_tokens(&mut path, line);
    }

    fn path_of_tokens(&mut self, path: &mut Vec<String>, line: usize) {
        if path.first().is_some_and(|first| first == "unsafe") {
            self.source().unsafe_lines.push(line);
        }
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.path(path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !self.skips(attributes(item), item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Fn(item) => &item.attrs[..],
            syn::ImplItem::Const(item) => &item.attrs[..],
            _ => &[],
        };
        if !self.skips(attributes, item) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        let attributes = match statement {
            syn::Stmt::Local(local) => &local.attrs[..],
            syn::Stmt::Macro(called) => &called.attrs[..],
            _ => &[],
        };
        if !self.skips(attributes, statement) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        for field in &item.fields {
            if !self.skips(&field.attrs, field) {
                let name = field.ident.as_ref().unwrap_or(&item.ident);
                self.place(name, &field.ty);
                visit::visit_field(self, field);
            }
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.place(&item.ident, &item.ty);
        visit::visit_item_static(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        if item.content.is_some() {
            visit::visit_item_mod(self, item);
        } else {
            let paths = item.attrs.iter().flat_map(path_attribute).collect();
            self.children.push(Child { module: self.module.clone(), paths });
        }
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imports(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(segments, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.source().unsafe_lines.push(block.span().start().line);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let Some(token) = signature.unsafety {
            self.source().unsafe_lines.push(token.span().start().line);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(token) = item.unsafety {
            self.source().unsafe_lines.push(token.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }
}

/// Returns whether a predicate of `cfg` holds in a build that is no test, model or fuzz target.
/// `None` where that depends on something else.
fn holds(meta: &Meta) -> Option<bool> {
    const OF_TESTS: [&str; 4] = ["test", "fuzzing", "doctest", "tourbillon_model"];
    match meta {
        Meta::Path(path) if OF_TESTS.iter().any(|name| path.is_ident(name)) => Some(false),
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let parts = parts.ok()?.iter().map(holds).collect::<Vec<_>>();
            if list.path.is_ident("not") {
                parts.first().copied().flatten().map(|part| !part)
            } else {
                let decides = list.path.is_ident("any");
                let all = parts.iter().all(|part| *part == Some(!decides));
                match parts.contains(&Some(decides)) {
                    true => Some(decides),
                    false => all.then_some(!decides),
                }
            }
        }
        _ => None,
    }
}

/// Returns the values of `path`, behind `cfg_attr` or not.
fn path_attribute(attribute: &Attribute) -> Vec<String> {
    fn of(meta: &Meta) -> Option<String> {
        let Meta::NameValue(pair) = meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }) = &pair.value else {
            return None;
        };
        pair.path.is_ident("path").then(|| value.value())
    }
    if attribute.path().is_ident("cfg_attr") {
        let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        parts.map(|parts| parts.iter().filter_map(of).collect()).unwrap_or_default()
    } else {
        of(&attribute.meta).into_iter().collect()
    }
}

fn attributes(item: &syn::Item) -> &[Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
