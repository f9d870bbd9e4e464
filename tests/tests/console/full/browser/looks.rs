//! How the console looks: pictures of each page in both themes, wide and on a phone, and what axe-core finds wrong for people who
//! see, hear or move otherwise.

use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Stdio};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::project_root;
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::Claimed;
use tokio::{io::AsyncWriteExt as _, process::Command};

use super::{Console, claimed};
use crate::operators::merchants::made;

/// If this variable is set, the pictures are written, not only taken.
const ACCEPT: &str = "ACCEPT_GOLDEN";

const THEMES: [&str; 2] = ["light", "dark"];

/// Widths and heights: a desk, and a phone.
const SIZES: [(u32, u32); 2] = [(1440, 900), (400, 860)];

/// Most bytes of all pictures together: everybody who clones the project fetches them.
const BYTES_MAX: u64 = 1_500_000;

/// Quality of a picture, of 100: text is sharp, and a picture has some 30 kB.
const QUALITY: u32 = 70;

/// Fewest characters of a picture in base64: an empty page has a tenth.
const PICTURE_MIN: usize = 10_000;

fn pictures() -> PathBuf {
    project_root().join("docs/console")
}

/// The pages, with the names of their pictures.
fn pages(template: TemplateId, coupon: &str) -> [(&'static str, String); 9] {
    [
        ("now", "#/now".to_owned()),
        ("campaigns", "#/campaigns".to_owned()),
        ("campaign", format!("#/campaign/{template}")),
        ("customer", format!("#/customer/coupon/{coupon}")),
        ("create", "#/create".to_owned()),
        ("grants", "#/grants".to_owned()),
        ("health", "#/health".to_owned()),
        ("keys", "#/keys".to_owned()),
        ("record", "#/record".to_owned()),
    ]
}

/// Makes two sales with some claims, held and confirmed; returns the one with holds, and a coupon of the other.
async fn furnish(world: &World) -> (TemplateId, String) {
    let named = |name: &'static str| {
        move |new: shopper::NewTemplate| shopper::NewTemplate { name: name.to_owned(), ..new }
    };
    let coats = world
        .template(200, |new| named("Winter coats")(new).held_for(TimeDelta::minutes(10)))
        .await;
    let shipping = world.template(150, named("Free shipping weekend")).await;
    for user in 1..=60 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let claim: Claimed = shopper.claim(coats, Some("k"), 1).await.unwrap().json().unwrap();
        if user % 3 > 0 {
            let paid =
                world.api().confirm(claim.id, &format!("payment {user}"), None).await.unwrap();
            assert_eq!(paid.status, 200, "{paid:?}");
        }
    }
    for name in ["Ada", "Grace"] {
        made(world.api(), "/v1/api-keys", &json!({ "name": name, "scopes": ["operate"] })).await;
    }
    let coupon = claimed(world, shipping, 42).await;
    (coats, coupon)
}

impl Console {
    /// Opens a page in a theme and a size, and waits until it stands still.
    async fn show(&mut self, page: &str, theme: &str, size: (u32, u32)) {
        let (width, height) = size;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.browser.call("Emulation.setDeviceMetricsOverride", metrics).await;
        self.go(page).await;
        let set = format!(
            "localStorage.setItem('theme', '{theme}');
            document.documentElement.dataset.theme = '{theme}';
            dispatchEvent(new Event('theme'))"
        );
        self.browser.evaluate(&set).await;
        self.until_read().await;
        self.until("document.querySelector('.first.well, .first.degraded, .first.down')").await;
    }
}

/// Writes what is in base64 to a file.
async fn write(base64: &str, file: PathBuf) {
    let file = fs::File::create(file).unwrap();
    let mut decode = Command::new("base64");
    decode.arg("-d").stdin(Stdio::piped()).stdout(file);
    let mut decode = decode.spawn().unwrap();
    decode.stdin.take().unwrap().write_all(base64.as_bytes()).await.unwrap();
    assert!(decode.wait().await.unwrap().success());
}

/// Signs in, where nothing moves: a colour half way to another theme's is neither's.
async fn still_console(world: &World) -> Console {
    let mut console = Console::of_platform(world).await;
    let still = json!({ "features": [{ "name": "prefers-reduced-motion", "value": "reduce" }] });
    console.browser.call("Emulation.setEmulatedMedia", still).await;
    console
}

#[tokio::test]
async fn each_page_has_its_picture_in_both_themes_wide_and_on_a_phone() {
    let world = World::start("browser pictures").await;
    let (template, coupon) = furnish(&world).await;
    let mut console = still_console(&world).await;
    let accepts = env::var_os(ACCEPT).is_some();
    let mut names = BTreeSet::new();
    for (name, page) in pages(template, &coupon) {
        for theme in THEMES {
            for size in SIZES {
                console.show(&page, theme, size).await;
                let wide = "document.documentElement.scrollWidth > innerWidth";
                assert_eq!(
                    console.browser.evaluate(wide).await,
                    false,
                    "{name} is wider than {size:?}"
                );
                let taken = json!({ "format": "webp", "quality": QUALITY });
                let picture = console.browser.call("Page.captureScreenshot", taken).await;
                let picture = picture["data"].as_str().unwrap();
                assert!(picture.len() > PICTURE_MIN, "{name}, {theme}, {size:?}");
                let file = format!("{name}-{theme}-{}.webp", size.0);
                if accepts {
                    write(picture, pictures().join(&file)).await;
                }
                names.insert(file);
            }
        }
    }
    console.end().await;
    world.end().await;

    let there = fs::read_dir(pictures()).unwrap().map(|entry| entry.unwrap());
    let there: Vec<fs::DirEntry> = there.collect();
    let bytes: u64 = there.iter().map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(bytes <= BYTES_MAX, "docs/console has {bytes} bytes");
    let there: BTreeSet<String> =
        there.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(there, names, "ACCEPT_GOLDEN=1 writes them");
}

#[tokio::test]
async fn no_page_has_a_serious_fault_for_people_who_see_or_move_otherwise() {
    let vendor = project_root().join("tests/vendor");
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&vendor);
    assert!(check.status().await.unwrap().success(), "a vendored file was changed");
    let axe = fs::read_to_string(vendor.join("axe-core-4.14.1.js")).unwrap();
    let world = World::start("browser axe").await;
    let (template, coupon) = furnish(&world).await;
    let mut console = still_console(&world).await;
    console.browser.evaluate(&format!("{axe};0")).await;
    let run = "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations
        .filter(({ impact }) => ['serious', 'critical'].includes(impact))
        .map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))]))";
    for (name, page) in pages(template, &coupon) {
        for theme in THEMES {
            for size in SIZES {
                console.show(&page, theme, size).await;
                let faults: Value = console.promised(run).await;
                assert_eq!(faults, json!([]), "{name}, {theme}, {size:?}");
            }
        }
    }
    console.end().await;
    world.end().await;
}
