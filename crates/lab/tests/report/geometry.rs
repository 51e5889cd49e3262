//! Geometry checks of the plots.

use crate::markup::Element;

/// Rectangle as (left, top, right, bottom).
type Area = [f64; 4];

/// Average width of a letter at font size 1, estimated low. Text areas computed with it are at most as large as on a
/// screen. The page places text by a larger estimate, so these areas must not overlap.
const LETTER: f64 = 0.5;

/// Checks that all texts and bars of each plot lie inside it, and that texts do not overlap.
pub(crate) fn check(elements: &[Element]) -> Result<(), String> {
    for (index, plot) in elements.iter().enumerate() {
        if plot.name != "svg" || !plot.get("class").is_some_and(|class| class.starts_with("plot")) {
            continue;
        }
        let page = view_box(plot).ok_or("a plot without a size")?;
        let inside: Vec<&Element> = elements.iter().filter(|element| is_in(elements, element, index)).collect();
        if !inside.iter().any(|element| element.name == "title") || !inside.iter().any(|element| element.name == "desc")
        {
            return Err("a plot without words for those who cannot see it".to_owned());
        }
        let mut texts: Vec<(Area, &str)> = Vec::new();
        for text in inside.iter().filter(|element| element.name == "text") {
            let area = text_area(text).ok_or("a text without a place")?;
            if !contains(page, area) {
                return Err(format!("{:?} at {area:?} is outside {page:?}", text.text));
            }
            if let Some((other, words)) = texts.iter().find(|(other, _)| overlap(*other, area)) {
                return Err(format!("{:?} at {area:?} covers {words:?} at {other:?}", text.text));
            }
            texts.push((area, &text.text));
        }
        for bar in inside.iter().filter(|element| element.get("class") == Some("bar")) {
            let area = bar_area(bar).ok_or("a bar without a place")?;
            if !contains(page, area) {
                return Err(format!("a bar at {area:?} is outside {page:?}"));
            }
        }
    }
    Ok(())
}

fn is_in(elements: &[Element], element: &Element, ancestor: usize) -> bool {
    std::iter::successors(element.parent, |&at| elements[at].parent).any(|at| at == ancestor)
}

fn view_box(plot: &Element) -> Option<Area> {
    let numbers: Vec<f64> = plot.get("viewBox")?.split(' ').filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().ok()
}

fn bar_area(bar: &Element) -> Option<Area> {
    let (x, y) = (bar.number("x")?, bar.number("y")?);
    Some([x, y, x + bar.number("width")?, y + bar.number("height")?])
}

fn text_area(text: &Element) -> Option<Area> {
    let (x, y, size) = (text.number("x")?, text.number("y")?, text.number("font-size")?);
    let width = LETTER * size * text.text.chars().count() as f64;
    let before = match text.get("text-anchor")? {
        "start" => 0.0,
        "middle" => width / 2.0,
        _ => width,
    };
    let (up, down) = (0.7 * size, 0.1 * size);
    Some(if text.get("transform").is_some() {
        [x - up, y - width + before, x + down, y + before]
    } else {
        [x - before, y - up, x - before + width, y + down]
    })
}

fn contains(page: Area, area: Area) -> bool {
    let slack = 0.5;
    page[0] - slack <= area[0] && page[1] - slack <= area[1] && area[2] <= page[2] + slack && area[3] <= page[3] + slack
}

fn overlap(a: Area, b: Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}
