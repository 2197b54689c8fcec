//! A real Chromium, asked over its DevTools protocol.
//!
//! It listens on a pipe (`--remote-debugging-pipe`), so no WebSocket is needed: messages are JSON, each ended by a
//! zero byte. Two named pipes stand for the file descriptors 3 and 4 that it expects.

use std::{
    cell::{Cell, RefCell},
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::Guarded;

/// A browser on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a person sees the page on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

pub(crate) const DESK: Screen = Screen { width: 1280, height: 900, dark: false };
pub(crate) const PHONE: Screen = Screen { width: 360, height: 740, dark: false };

/// A browser with one page, gone at the end of the test.
#[derive(Debug)]
pub(crate) struct Page {
    _child: Guarded,
    _dir: TempDir,
    to: RefCell<File>,
    from: Receiver<Value>,
    session: String,
    last: Cell<u64>,
    events: RefCell<Vec<Value>>,
}

impl Page {
    #[track_caller]
    pub(crate) fn open(url: &str, screen: Screen) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| fifo(&dir.path().join(name)));
        let child = chromium(dir.path());
        let mut page = Self {
            _child: child,
            _dir: dir,
            to: RefCell::new(to),
            from: listen(from),
            session: String::new(),
            last: Cell::new(0),
            events: RefCell::default(),
        };
        let targets = page.call("Target.getTargets", json!({}));
        let target =
            targets["targetInfos"].as_array().unwrap().iter().find(|target| target["type"] == "page");
        let target = &target.expect("it opens with a page")["targetId"];
        let attached = page.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        page.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Runtime", "Log", "Network", "Page"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.show_on(screen);
        page.call("Page.navigate", json!({"url": url}));
        page.until("the page is there", "document.readyState === 'complete'");
        page
    }

    pub(crate) fn show_on(&self, Screen { width, height, dark }: Screen) {
        let scheme = if dark { "dark" } else { "light" };
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
    }

    /// Asks the browser and waits for its answer; what happens meanwhile is kept.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut to = self.to.borrow_mut();
        to.write_all(message.to_string().as_bytes()).and_then(|()| to.write_all(b"\0")).expect("it listens");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut heard = match self.from.recv_timeout(left) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => panic!("{method} was not answered within {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser is gone"),
            };
            if heard["id"] != id {
                self.events.borrow_mut().push(heard);
                continue;
            }
            assert!(heard["error"].is_null(), "{method}: {}", heard["error"]);
            return heard["result"].take();
        }
    }

    /// The value of an expression, awaited if it is a promise.
    #[track_caller]
    pub(crate) fn eval(&self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let mut answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({})?.textContent ?? ''", json!(selector)));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.eval(&format!("Boolean({expression})")) != true {
            assert!(
                Instant::now() < deadline,
                "not in time: {what}\n{}",
                self.eval("document.body.innerText")
            );
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until an element's text holds `wanted`.
    #[track_caller]
    pub(crate) fn until_text(&self, selector: &str, wanted: &str) {
        let expression =
            format!("document.querySelector({})?.textContent.includes({})", json!(selector), json!(wanted));
        self.until(&format!("`{wanted}` in {selector}"), &expression);
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.eval(&format!("document.querySelector({}).click()", json!(selector)));
    }

    /// Types into a field, as a keyboard does.
    #[track_caller]
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        self.eval(&format!(
            "(() => {{ const field = document.querySelector({}); field.focus(); field.select?.(); }})()",
            json!(selector)
        ));
        self.call("Input.insertText", json!({"text": text}));
    }

    #[track_caller]
    pub(crate) fn choose(&self, selector: &str, value: &str) {
        self.eval(&format!(
            "(() => {{ const field = document.querySelector({}); field.value = {}; \
             field.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
            json!(selector),
            json!(value)
        ));
    }

    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        // A form is sent by the character that Enter makes.
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            other => panic!("no code for {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Keeps a picture of the whole page below `target/`, and says where.
    #[track_caller]
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let shot =
            self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.png"));
        fs::write(&path, STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()).unwrap();
        path
    }

    /// The addresses that were asked for so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.call("Runtime.evaluate", json!({"expression": "0"}));
        let events = self.events.borrow();
        let sent = events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Everything the browser complained about: exceptions, errors on the console, breaches of the policy.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.call("Runtime.evaluate", json!({"expression": "0"}));
        let events = self.events.borrow();
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            // What the server refused is no fault of the page's.
            Some("Log.entryAdded") => {
                event["params"]["entry"]["level"] == "error"
                    && event["params"]["entry"]["source"] != "network"
            }
            _ => false,
        };
        events.iter().filter(is_complaint).map(|event| event["params"].to_string()).collect()
    }
}

fn fifo(path: &Path) -> File {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
    // For both, so that opening waits for nobody.
    File::options().read(true).write(true).open(path).unwrap()
}

fn chromium(dir: &Path) -> Guarded {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec chromium \"$@\" 3<to 4>from",
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
    ]);
    command.args([
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
    ]);
    command.args(["--no-first-run", "--remote-debugging-pipe", "--user-data-dir=profile", "about:blank"]);
    let child =
        command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Guarded(child.expect("sh can be started"))
}

fn listen(from: File) -> Receiver<Value> {
    let (sender, receiver): (Sender<Value>, _) = channel();
    thread::spawn(move || {
        for message in BufReader::new(from).split(0) {
            let Ok(message) = message else { return };
            let heard = serde_json::from_slice(&message).expect("messages are JSON");
            if sender.send(heard).is_err() {
                return;
            }
        }
    });
    receiver
}
