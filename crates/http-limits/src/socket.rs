//! [`Socket`]: a stream whose bytes a [`Watch`] sees.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::watch::Watch;

/// Bytes that are read at a time.
const CHUNK: usize = 8 * 1024;

/// Most bytes that are read of a body that nobody wants.
const UNWANTED: usize = 1 << 20;

/// Stream of a connection, for hyper to read and write.
pub struct Socket<S> {
    stream: S,
    watch: Arc<Watch>,
    /// Bytes that came with the end of a head or of a body, and are passed on with the next read.
    /// Without memory while there is nothing, as most connections are idle.
    rest: Vec<u8>,
    /// Bytes that are still read of a body that nobody wants.
    unwanted: usize,
}

impl<S> Socket<S> {
    /// Creates the socket of the connection that `watch` is over.
    pub fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self { stream, watch, rest: Vec::new(), unwanted: UNWANTED }
    }
}

impl<S> fmt::Debug for Socket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("watch", &self.watch).finish_non_exhaustive()
    }
}

impl<S: Read + Unpin> Read for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, watch, rest, .. } = self.get_mut();
        if rest.is_empty() {
            let mut chunk = [MaybeUninit::uninit(); CHUNK];
            let mut bytes = ReadBuf::uninit(&mut chunk);
            ready!(Pin::new(stream).poll_read(cx, bytes.unfilled()))?;
            let bytes = bytes.filled();
            let taken = watch.read(&bytes[..bytes.len().min(buffer.remaining())]);
            buffer.put_slice(&bytes[..taken]);
            *rest = bytes[taken..].to_vec();
        } else {
            let room = rest.len().min(buffer.remaining());
            let taken = watch.read(&rest[..room]);
            buffer.put_slice(&rest[..taken]);
            *rest = rest[taken..].to_vec();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Write + Unpin> Write for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch.writes(written.is_ready());
        written
    }

    /// Writes several pieces at once. So hyper keeps an answer as it is and frees it once it is
    /// written, rather than copy it into a buffer that stays as large as the largest answer was.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch.writes(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// After an answer that came before the end of a body, reads on for a while: to close with
    /// something unread resets the connection, and may take the answer from the client.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, watch, unwanted, .. } = self.get_mut();
        ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
        if !watch.closes() {
            return Poll::Ready(Ok(()));
        }
        let mut chunk = [MaybeUninit::uninit(); CHUNK];
        while *unwanted > 0 {
            let mut bytes = ReadBuf::uninit(&mut chunk);
            ready!(Pin::new(&mut *stream).poll_read(cx, bytes.unfilled()))?;
            if bytes.filled().is_empty() {
                break;
            }
            *unwanted = unwanted.saturating_sub(bytes.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}
