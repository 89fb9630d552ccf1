//! Output files: checked before the work, and complete or unchanged after it.
//!
//! A file is written without a name if the file system allows that, else beside its place under another name
//! (`temporary`), and is put in place when it is complete; on any failure the old file stays, and the new data is
//! removed. Completing a file and putting it in place are two steps, so that several are put in place or none. Links
//! are followed. Special files, such as `/dev/null` or a pipe, cannot be replaced and are written to directly.

mod temporary;

use crate::{Element, Error, FileErrorKind, Result};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use temporary::Temporary;
pub use temporary::remove_partial_files;

/// The maximum number of links to follow, as on Linux.
const LINKS: usize = 40;

/// The place of a file that will be written.
///
/// Making one checks the place and changes nothing, so that a long computation does not end with a result that cannot
/// be written:
///
/// ```
/// use polyshard::runtime::Output;
/// let error = Output::new("/no/such/folder/c.npy").expect_err("it is not there");
/// let message = "cannot write `/no/such/folder/c.npy`: the folder `/no/such/folder` does not exist; create it first";
/// assert_eq!(error.to_string(), message);
/// ```
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    /// A file or an unused name, at the end of all links; `None` for a special file, which is written to directly.
    place: Option<PathBuf>,
}

impl Output {
    /// Checks `path`, as a place to write a file to.
    ///
    /// # Errors
    /// [`FileError`](crate::FileError) if it is a folder, a disk or a socket, its folder does not exist, or one of them
    /// must not be written to.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let output = |place| Self { path: path.to_owned(), place };
        let place = match fs::metadata(path) {
            Ok(there) if there.is_file() => match target(path)? {
                Some(target) => target,
                // It belongs to a process that has it open.
                None => return Ok(output(None)),
            },
            Ok(there) => return special(path, &there).map(|()| output(None)),
            Err(why) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&why.kind()) => match target(path)? {
                Some(target) => target,
                None => return Err(failed(path, why)),
            },
            Err(why) => return Err(failed(path, why)),
        };
        if place.is_file() {
            OpenOptions::new().write(true).open(&place).map_err(|why| failed(path, refusal(why, "it")))?;
        }
        let folder = folder_of(&place);
        match fs::metadata(folder) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => return Err(failed(path, FileErrorKind::NotAFolder { parent: folder.into() })),
            Err(why) if why.kind() == ErrorKind::NotFound => {
                return Err(failed(path, FileErrorKind::NoFolder { folder: folder.into() }));
            }
            Err(why) => return Err(failed(path, why)),
        }
        // Only making a file shows whether one can be made; it is removed immediately.
        Temporary::new(&place)
            .map_err(|why| failed(path, refusal(why, &format!("the folder `{}`", folder.display()))))?;
        Ok(output(Some(place)))
    }

    /// Returns the path that it was made with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that `bytes` bytes are free where the file will be, as far as the system reports it.
    ///
    /// # Errors
    /// If they are not.
    pub fn with_room(self, bytes: u128) -> Result<Self> {
        let Some(place) = &self.place else { return Ok(self) };
        match free_space(folder_of(place)) {
            Some(free) if bytes > free.into() => Err(failed(&self.path, FileErrorKind::Room { needed: bytes, free })),
            _ => Ok(self),
        }
    }

    /// Checks that the file is not one of `inputs`, under any name.
    ///
    /// # Errors
    /// If it is one of them.
    pub fn other_than<'a>(self, inputs: impl IntoIterator<Item = &'a Path>) -> Result<Self> {
        let Some(place) = &self.place else { return Ok(self) };
        match inputs.into_iter().find(|input| same_file(place, input)) {
            Some(input) => Err(failed(&self.path, FileErrorKind::Input { input: input.into() })),
            None => Ok(self),
        }
    }

    /// Returns whether a file written to either place would replace that of the other.
    #[must_use]
    pub fn is_at_place_of(&self, other: &Self) -> bool {
        let place = |output: &Self| {
            let place = output.place.as_ref()?;
            Some((fs::canonicalize(folder_of(place)).ok()?, place.file_name()?.to_owned()))
        };
        place(self).is_some_and(|own| Some(own) == place(other))
    }

    /// Returns the files beside it that are left of killed runs that were writing it.
    #[must_use]
    pub fn left_over(&self) -> Vec<PathBuf> {
        let Some(place) = &self.place else { return Vec::new() };
        temporary::left_over(place)
    }

    /// Begins to write.
    ///
    /// # Errors
    /// If the file cannot be made, or an existing special file cannot be opened. Opening a pipe waits for its reader.
    pub fn create(&self) -> Result<OutputFile> {
        let failed = |why: io::Error| failed(&self.path, refusal(why, "it"));
        let (file, temporary) = match &self.place {
            // If standard output is redirected to a file, printed output is not overwritten.
            None => (OpenOptions::new().append(true).open(&self.path).map_err(failed)?, None),
            Some(place) => {
                let (file, temporary) = Temporary::new(place).map_err(failed)?;
                (file, Some(temporary))
            }
        };
        Ok(OutputFile { path: self.path.clone(), file, temporary })
    }

    /// Writes all of a file.
    ///
    /// # Errors
    /// If it cannot be written; the old file is then unchanged.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut file = self.create()?;
        file.write(bytes)?;
        file.finish()
    }
}

/// A file that is being written. If it is dropped before it is finished, it is removed.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: File,
    /// Its place, unless it is a special file.
    temporary: Option<Temporary>,
}

impl OutputFile {
    /// Appends `bytes`.
    ///
    /// # Errors
    /// If not all of them can be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|why| failed(&self.path, refusal(why, "it")))
    }

    /// Writes elements with their memory layout, which is that of `.npy` files.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn write_elements<T: Element>(&mut self, elements: &[T]) -> Result<()> {
        self.write(bytemuck::cast_slice(elements))
    }

    /// Gives the file its name, now that it is complete; an existing file of that name is replaced, and its permissions
    /// kept.
    ///
    /// # Errors
    /// If that fails; the old file is then unchanged.
    pub fn finish(self) -> Result<()> {
        CompleteFile::commit([self.complete()?])
    }

    /// Completes the file, which is then on the disk, but not in place; [`CompleteFile::commit`] puts it in place.
    ///
    /// # Errors
    /// If it cannot be written; the old file is then unchanged.
    pub fn complete(self) -> Result<CompleteFile> {
        let failed = |why: io::Error| failed(&self.path, refusal(why, "it"));
        // Pipes and devices need no synchronisation.
        if let Some(Temporary { place, .. }) = &self.temporary {
            if let Ok(there) = fs::metadata(place) {
                self.file.set_permissions(there.permissions()).map_err(failed)?;
            }
            self.file.sync_all().map_err(failed)?;
        }
        Ok(CompleteFile(self))
    }
}

/// A file that is complete, but not in place. If it is dropped, it is removed.
#[derive(Debug)]
pub struct CompleteFile(OutputFile);

impl CompleteFile {
    /// Puts the files in place. The steps that are likely to fail are done for all of them before the first is put in
    /// place.
    ///
    /// # Errors
    /// If one cannot be put in place.
    pub fn commit(files: impl IntoIterator<Item = Self>) -> Result<()> {
        let named = files.into_iter().filter_map(|Self(OutputFile { path, file, temporary })| {
            Some(match temporary?.named(&file) {
                Ok((name, place)) => Ok((path, name, place)),
                Err(why) => Err(failed(&path, refusal(why, "it"))),
            })
        });
        for (path, name, place) in named.collect::<Result<Vec<_>>>()? {
            name.persist(&place).map_err(|error| failed(&path, refusal(error.error, "it")))?;
        }
        Ok(())
    }
}

/// Returns where the links from `path` end, at a file or at an unused name; `None` if that belongs to a process, as
/// `/dev/stdout` does.
fn target(path: &Path) -> Result<Option<PathBuf>> {
    // `file/` and `none/` name folders.
    if path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none()
    {
        return Err(failed(path, FileErrorKind::Nameless));
    }
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        if fs::canonicalize(folder_of(&place)).is_ok_and(|folder| folder.starts_with("/proc")) {
            return Ok(None);
        }
        match fs::read_link(&place) {
            // An absolute link replaces the folder.
            Ok(link) => place = folder_of(&place).join(link),
            Err(_) => return Ok(Some(place)),
        }
    }
    Err(failed(path, FileErrorKind::Links))
}

/// Checks that a path that is not a file can be written to.
fn special(path: &Path, there: &Metadata) -> Result<()> {
    if there.is_dir() {
        return Err(failed(path, FileErrorKind::Folder));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = there.file_type();
        if kind.is_block_device() || kind.is_socket() {
            let what = if kind.is_socket() { "a socket" } else { "a disk" };
            return Err(failed(path, FileErrorKind::Special { what }));
        }
        // Opening a pipe would wait for its reader.
        let access = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
        access.map_err(|why| failed(path, refusal(why.into(), "it")))?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the bytes that this user may still write to the file system of `folder`.
#[cfg(unix)]
fn free_space(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let system = rustix::fs::statvfs(folder).ok()?;
    // Some blocks are reserved for the superuser, who may own this process. File systems without blocks report none.
    let superuser = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let blocks = if superuser { system.f_bfree } else { system.f_bavail };
    (system.f_blocks > 0).then(|| blocks.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free_space(_folder: &Path) -> Option<u64> {
    None
}

#[cfg(unix)]
fn same_file(left: &Path, right: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let [left, right] = [left, right].map(|path| fs::metadata(path).map(|there| (there.dev(), there.ino())));
    left.is_ok() && left.ok() == right.ok()
}

#[cfg(not(unix))]
fn same_file(left: &Path, right: &Path) -> bool {
    let [left, right] = [left, right].map(fs::canonicalize);
    left.is_ok() && left.ok() == right.ok()
}

/// The system's message, or for common errors one that says how to fix them; `what` must be written to.
fn refusal(why: io::Error, what: &str) -> FileErrorKind {
    let kind = why.kind();
    let message = match kind {
        ErrorKind::PermissionDenied => {
            format!("no permission to write to {what}; write elsewhere, or change the permission")
        }
        ErrorKind::ReadOnlyFilesystem => format!("{what} is on a read-only file system; write elsewhere"),
        ErrorKind::StorageFull => "the file system is full; write elsewhere, or make room".into(),
        ErrorKind::QuotaExceeded => "your quota is used up; write elsewhere, or make room".into(),
        _ => why.to_string(),
    };
    FileErrorKind::System { kind, message }
}

fn failed(path: &Path, kind: impl Into<FileErrorKind>) -> Error {
    crate::npy::failed("write", path, kind.into())
}

#[cfg(test)]
mod tests;
