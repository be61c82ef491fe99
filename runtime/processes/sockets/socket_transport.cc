#include "runtime/processes/sockets/socket_transport.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace foretrain {

void SocketTransport::Start(std::span<const Piece> pieces) {
  left_.assign(pieces.begin(), pieces.end());
  done_ = 0;
}

// MSG_NOSIGNAL: a closed connection is an error of the call and not a SIGPIPE, which would end the
// process.
bool SocketTransport::Move(Piece& piece) {
  const int socket = SocketOf(piece.member);
  while (piece.bytes > 0) {
    const auto bytes = static_cast<std::size_t>(piece.bytes);
    const ssize_t moved = piece.sends ? send(socket, piece.at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                                      : recv(socket, piece.at, bytes, MSG_DONTWAIT);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (moved <= 0) return false;
    piece.at += moved;
    piece.bytes -= moved;
    done_ += moved;
  }
  return true;
}

// Moves all pieces without blocking on any: members that send to each other at the same time would
// otherwise deadlock with full buffers.
TransportState SocketTransport::Advance(int ms) {
  const std::int64_t before = done_;
  for (Piece& piece : left_) {
    if (!Move(piece)) return {false, done_, piece.member, "its connection has ended"};
  }
  std::erase_if(left_, [](const Piece& piece) { return piece.bytes == 0; });
  if (left_.empty()) return {true, done_, 0, ""};
  if (done_ == before) {
    std::vector<pollfd> waited;
    for (const Piece& piece : left_) {
      waited.push_back(
          {SocketOf(piece.member), static_cast<short>(piece.sends ? POLLOUT : POLLIN), 0});
    }
    static_cast<void>(poll(waited.data(), waited.size(), ms));
  }
  return {false, done_, left_.front().member, ""};
}

}  // namespace foretrain
