//! Strict parser of the page's HTML and SVG. It rejects errors that browsers silently correct.

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "br", "link"];

/// A start tag with its attributes, its parent, and the text up to the next tag.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    /// Index of the enclosing element; `None` for the root.
    pub(crate) parent: Option<usize>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(attribute, _)| attribute == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(|value| value.parse().ok())
    }
}

/// Parses all elements of `page`, or returns a description of the error.
pub(crate) fn read(page: &str) -> Result<Vec<Element>, String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no document type")?;
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start])?;
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('/') {
            let (name, after) = after.split_once('>').ok_or("an end tag without an end")?;
            let closed = open.pop().ok_or_else(|| format!("</{name}> closes nothing"))?;
            if elements[closed].name != name {
                return Err(format!("</{name}> closes <{}>", elements[closed].name));
            }
            rest = after;
            continue;
        }
        let (mut element, is_closed, after) = start_tag(rest)?;
        element.parent = open.last().copied();
        rest = after;
        if element.name == "style" || element.name == "script" {
            let end = rest.find("</").ok_or("a style or script without an end")?;
            rest = &rest[end..];
        }
        element.text = unescaped(&rest[..rest.find('<').unwrap_or(rest.len())]);
        if !is_closed && !VOID.contains(&element.name.as_str()) {
            open.push(elements.len());
        }
        elements.push(element);
    }
    check_text(rest)?;
    match open.last() {
        Some(&left) => Err(format!("<{}> is never closed", elements[left].name)),
        None => Ok(elements),
    }
}

/// Parses the start tag at the beginning of `rest`, after its `<`. Returns the element, true if it is self-closing, and
/// the remaining text.
fn start_tag(rest: &str) -> Result<(Element, bool, &str), String> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).ok_or("a tag without an end")?;
    let (name, mut rest) = rest.split_at(end);
    if name.is_empty() {
        return Err(format!("a bare < before {:?}", rest.chars().take(20).collect::<String>()));
    }
    let mut attributes: Vec<(String, String)> = Vec::new();
    loop {
        rest = rest.trim_start();
        let is_closed = rest.starts_with("/>");
        if let Some(after) = rest.strip_prefix("/>").or_else(|| rest.strip_prefix('>')) {
            let element = Element { name: name.to_owned(), attributes, parent: None, text: String::new() };
            return Ok((element, is_closed, after));
        }
        let end = rest.find(['=', '>', ' ']).ok_or("an attribute without an end")?;
        let attribute = rest[..end].to_owned();
        rest = &rest[end..];
        let value = match rest.strip_prefix("=\"") {
            None => String::new(),
            Some(after) => {
                let (value, after) = after.split_once('"').ok_or("a value without an end")?;
                check_text(value)?;
                rest = after;
                value.to_owned()
            }
        };
        if attribute.is_empty() || attribute.contains(['<', '"', '\'']) {
            return Err(format!("{attribute:?} is no attribute"));
        }
        if attributes.iter().any(|(name, _)| *name == attribute) {
            return Err(format!("{attribute} stands twice"));
        }
        attributes.push((attribute, value));
    }
}

fn unescaped(text: &str) -> String {
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    marks.iter().fold(text.to_owned(), |text, (entity, mark)| text.replace(entity, mark))
}

/// Checks that a text has no unescaped markup and no control characters.
fn check_text(text: &str) -> Result<(), String> {
    if text.contains(['<', '>']) || text.chars().any(|c| c.is_control() && c != '\n') {
        return Err(format!("unescaped: {text:?}"));
    }
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        if !known.iter().any(|entity| text[at..].starts_with(entity)) {
            return Err(format!("a bare & in {text:?}"));
        }
    }
    Ok(())
}

#[test]
fn the_reader_refuses_broken_markup() {
    let page = |body: &str| read(&format!("<!DOCTYPE html>{body}"));
    assert_eq!(page("<p class=\"a\">x &amp; y<br></p>").map(|elements| elements.len()), Ok(2));
    for broken in
        ["<p>", "<p></b>", "</p>", "<p>a & b</p>", "<p x=\"<\"></p>", "<p>1 < 2</p>", "<p a=\"1\" a=\"2\"></p>"]
    {
        assert!(page(broken).is_err(), "{broken}");
    }
}
