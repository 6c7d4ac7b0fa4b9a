//! A connection as hyper wants it, which tells its [`Watch`] what happens on it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use smol::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader};

use super::limits::Watch;

pub(crate) struct Socket<S> {
    stream: BufReader<S>,
    watch: Arc<Watch>,
}

impl<S: AsyncRead> Socket<S> {
    pub(crate) fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self { stream: BufReader::new(stream), watch }
    }
}

impl<S: AsyncRead + Unpin> Read for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, watch } = self.get_mut();
        let bytes = ready!(Pin::new(&mut *stream).poll_fill_buf(cx))?;
        let room = bytes.len().min(buffer.remaining());
        let taken = watch.read(&bytes[..room]);
        buffer.put_slice(&bytes[..taken]);
        Pin::new(stream).consume(taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Write for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream.get_mut()).poll_write(cx, bytes);
        match written {
            Poll::Pending => self.watch.cannot_write(),
            Poll::Ready(_) => self.watch.wrote(),
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_close(cx)
    }
}
