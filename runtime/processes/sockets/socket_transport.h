// Moves bytes over TCP: one authenticated connection to each other member.
// runtime/processes/sockets/socket_mesh.h makes the connections.
#pragma once

#include <optional>
#include <vector>

#include "runtime/processes/peer_transport.h"
#include "runtime/processes/wire/connection.h"

namespace foretrain {

class SocketTransport final : public PeerTransport {
 public:
  // `peers`: by member; none to itself.
  explicit SocketTransport(std::vector<std::optional<Connection>> peers)
      : peers_(std::move(peers)) {}

  void Start(std::span<const Piece> pieces) override;
  TransportState Advance(int ms) override;

 private:
  // Sends or receives as much of a piece as possible without waiting. False: the member has gone.
  bool Move(Piece& piece);
  int SocketOf(int member) const {
    return peers_[static_cast<std::size_t>(member)]->socket().get();
  }

  std::vector<std::optional<Connection>> peers_;
  std::vector<Piece> left_;  // with what is left of each
  std::int64_t done_ = 0;    // bytes
};

}  // namespace foretrain
