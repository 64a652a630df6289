//! Whether a shell was started to run one simple command and nothing else, as `system(3)`,
//! Python's `shell=True` and Perl's backquotes start it: `sh -c 'getgpu --hold'`. Such a
//! shell is not who called, its parent is. Pure: decided by the shell's own arguments.

/// Programs that read `-c TEXT` as a shell does.
const SHELLS: [&[u8]; 11] = [
    b"sh", b"dash", b"bash", b"ash", b"ksh", b"mksh", b"zsh", b"busybox", b"tcsh", b"csh", b"fish",
];
/// Programs and words that become the program that they start.
const BEFORE: [&[u8]; 6] = [b"env", b"command", b"exec", b"nice", b"ionice", b"nohup"];

/// Whether these are the arguments of a shell whose text is one call of getgpu.
pub fn is_getgpu_alone(arguments: &[&[u8]]) -> bool {
    text(arguments).is_some_and(|text| {
        let words = simple_command(text).unwrap_or_default();
        let mut words = words.iter().skip_while(|word| is_assignment(word));
        match words.next().map(|word| base(word)) {
            Some(b"getgpu") => true,
            Some(first) if BEFORE.contains(&first) => words.any(|word| base(word) == b"getgpu"),
            _ => false,
        }
    })
}

/// The text of a shell that was started with `-c TEXT`.
fn text<'a>(arguments: &[&'a [u8]]) -> Option<&'a [u8]> {
    let (first, mut rest) = arguments.split_first()?;
    let name = base(first).strip_prefix(b"-").unwrap_or(base(first));
    if !SHELLS.contains(&name) {
        return None;
    }
    if name == b"busybox" {
        rest = rest
            .split_first()
            .filter(|(applet, _)| SHELLS.contains(*applet))?
            .1;
    }
    let is_option = |word: &&&[u8]| word.starts_with(b"-") || word.starts_with(b"+");
    let options = rest.iter().take_while(is_option).count();
    let has_text = |word: &&[u8]| !word.starts_with(b"--") && word.contains(&b'c');
    rest[..options]
        .iter()
        .any(has_text)
        .then(|| rest.get(options).copied())?
}

fn base(word: &[u8]) -> &[u8] {
    word.rsplit(|byte| *byte == b'/').next().unwrap_or(word)
}

/// `NAME=value` in front of a command.
fn is_assignment(word: &[u8]) -> bool {
    let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
    name.len() < word.len()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The words of a text that is one simple command, without its redirections; none if there
/// is anything more in it: an operator, another command, a comment, a here-document.
fn simple_command(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let text = text.trim_ascii();
    // Nothing follows it.
    let text = text.strip_suffix(b";").unwrap_or(text);
    let mut reader = Reader::default();
    let mut bytes = text.iter().copied().peekable();
    let mut quote = None;
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                reader.is_open = true;
            }
            (Some(open), _) if open == byte => quote = None,
            (None | Some(b'"'), b'`') => return None,
            (None | Some(b'"'), b'$') if bytes.peek() == Some(&b'(') => return None,
            (None | Some(b'"'), b'\\') => reader.put(bytes.next()?),
            (Some(_), _) => reader.put(byte),
            (None, b' ' | b'\t') => reader.end_word(),
            (None, b'&') if reader.is_operator || bytes.peek() == Some(&b'>') => {}
            (None, b'<') if bytes.peek() == Some(&b'<') => return None,
            (None, b'<' | b'>') => reader.redirect(),
            (None, b';' | b'&' | b'|' | b'(' | b')' | b'\n') => return None,
            (None, b'#') if !reader.is_open => return None,
            (None, _) => reader.put(byte),
        }
    }
    reader.end_word();
    quote.is_none().then_some(reader.words)
}

/// Words as they are read.
#[derive(Default)]
struct Reader {
    words: Vec<Vec<u8>>,
    word: Vec<u8>,
    /// A word has begun.
    is_open: bool,
    /// The last byte was `<` or `>`.
    is_operator: bool,
    /// The next word is where a redirection leads.
    is_target: bool,
}

impl Reader {
    fn put(&mut self, byte: u8) {
        self.word.push(byte);
        (self.is_open, self.is_operator) = (true, false);
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if std::mem::take(&mut self.is_open) && !std::mem::take(&mut self.is_target) {
            self.words.push(word);
        }
        self.is_operator = false;
    }

    /// `2>` and `>`: what stands before it without a blank is a descriptor's number.
    fn redirect(&mut self) {
        if self.word.iter().all(u8::is_ascii_digit) {
            self.word.clear();
            self.is_open = false;
        }
        self.end_word();
        (self.is_target, self.is_operator) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_alone(line: &str) -> bool {
        let words: Vec<&[u8]> = line.split('|').map(str::as_bytes).collect();
        is_getgpu_alone(&words)
    }

    #[test]
    fn one_call_is_told_from_a_script() {
        for text in [
            "getgpu --hold",
            " getgpu --hold -n 2\n",
            "getgpu --hold 2>/dev/null",
            "getgpu --hold 2>&1 </dev/null",
            "getgpu --hold 2> /dev/null -n 1",
            "/opt/my\\ bin/getgpu --hold",
            "'/opt/my bin/getgpu' \"--hold\"",
            "getgpu --hold --gpu $GPU --tag \"a;b\" &>/dev/null",
            "GETGPU_CONFIG=/x A= getgpu --hold",
            "env -u CUDA_VISIBLE_DEVICES getgpu --hold",
            "nice -n 5 getgpu --hold",
            "getgpu --hold;",
            "getgpu --hold ; ",
        ] {
            let words: Vec<&[u8]> = vec![b"/bin/sh", b"-c", text.as_bytes()];
            assert!(is_getgpu_alone(&words), "{text}");
        }
        for text in [
            "",
            "app",
            "app getgpu",
            "getgpu --hold; app",
            "getgpu --hold;;",
            "getgpu --hold \\;",
            "nice app; getgpu",
            "getgpu --hold && app",
            "getgpu --hold & app",
            "getgpu --hold &",
            "getgpu --hold\napp",
            "echo $(getgpu --hold)",
            "echo `getgpu --hold`",
            "getgpu --tag \"$(app)\"",
            "(getgpu --hold)",
            "if getgpu --hold",
            "A=getgpu app",
            "app >getgpu",
            "getgpu --hold <<x",
            "getgpu 'x",
            "# getgpu",
        ] {
            let words: Vec<&[u8]> = vec![b"sh", b"-c", text.as_bytes()];
            assert!(!is_getgpu_alone(&words), "{text}");
        }
        assert!(simple_command(b"getgpu --hold | cat").is_none());
    }

    #[test]
    fn a_shell_is_known_by_its_name_and_the_option() {
        for line in [
            "sh|-c|getgpu --hold",
            "sh|-c|--|getgpu --hold",
            "-bash|-lc|getgpu --hold",
            "/bin/dash|-e|-c|getgpu --hold|name|argument",
            "busybox|sh|-c|getgpu --hold",
            "tcsh|-f|-c|getgpu --hold",
            "fish|-c|getgpu --hold",
        ] {
            assert!(is_alone(line), "{line}");
        }
        for line in [
            "python3|-c|getgpu --hold",
            "sh|getgpu --hold",
            "sh|script|-c|getgpu --hold",
            "bash|--rcfile|getgpu --hold",
            "busybox|vi|-c|getgpu --hold",
            "sh|-c",
            "sh",
            "",
        ] {
            assert!(!is_alone(line), "{line}");
        }
    }
}
