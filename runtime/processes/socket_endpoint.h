// One rank's end of a communicator over TCP: what its calls send and sum.
// runtime/processes/socket_world.h connects the sockets.
//
//   each member ── signature ──► all others     checked by each before anything is moved
//               ── parts ──────► those that need them, while theirs come
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/processes/wire/connection.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

// Code that follows each tensor's bytes on a connection. kCrc32c finds damage, kHmac also changes
// by someone in between.
enum class TransferCheck { kNone, kCrc32c, kHmac };

class SocketEndpoint : public Communicator {
 public:
  // Objects referred to by `context` outlive this. `peers`: by member of the key; none to itself.
  SocketEndpoint(const WorldContext& context, const ChannelKey& key, int rank,
                 std::vector<std::optional<Connection>> peers, TransferCheck check);

  // Errors: as in Communicator; kIo, a member's process has gone, or bytes arrived changed.
  Result<CommTimes> Call(const CommCall& call, FtQueue* queue) override;

 private:
  // Bytes to send to or receive from a member.
  struct Piece {
    int member = 0;
    bool sends = false;
    char* at = nullptr;
    std::int64_t bytes = 0;
  };
  struct Signature;

  int Count() const { return static_cast<int>(key_.members.size()); }
  int RankOf(int member) const { return key_.members[static_cast<std::size_t>(member)]; }

  Signature SignatureOf(const CommCall& call) const;
  Result<void> Meet(const CommCall& call);
  Result<void> Move(const CommCall& call, FtQueue* queue);
  Result<void> Reduce(const CommCall& call, FtQueue* queue);
  Result<void> GatherParts(const CommCall& call);
  Result<void> Gather(const CommCall& call);
  Result<void> ExchangeParts(const CommCall& call, const std::vector<std::int64_t>& sent,
                             const std::vector<std::int64_t>& came);
  Result<void> Rotate(const CommCall& call);
  Result<void> Pass(const CommCall& call);
  // Moves all pieces at once and checks them; pieces without bytes are skipped.
  Result<void> Exchange(const std::vector<Piece>& pieces, const CommCall& call);
  Result<void> MoveAll(std::vector<Piece> pieces, const CommCall& call);
  std::string CodeOf(const Piece& piece);
  // Sends or receives as much of a piece as possible without waiting. Errors: the member has gone.
  Result<void> Advance(Piece& piece, bool& moved, const CommCall& call);
  int SocketOf(int member) const {
    return peers_[static_cast<std::size_t>(member)]->socket().get();
  }
  Error Lost(int member, const CommCall& call) const;
  static std::string TextOf(OpKind kind, std::int64_t elements);

  const FtDeviceApi& api_;
  RunClock& clock_;
  RunControl& control_;
  const std::int64_t timeout_ns_;
  const std::function<std::string(int rank, OpId op)> op_text_;
  const ChannelKey key_;
  const int rank_;
  const int member_;
  std::vector<std::optional<Connection>> peers_;
  const TransferCheck check_;
  std::int64_t sequence_ = 0;
  std::vector<char> room_;  // other members' parts of a sum
};

}  // namespace foretrain
