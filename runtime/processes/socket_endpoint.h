// One rank's end of a communicator over TCP: what its calls send and sum.
// runtime/processes/socket_world.h connects the sockets.
//
//   each member ── signature ──► all others     checked by each before anything is moved
//               ── parts ──────► those that need them, while theirs come
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/processes/socket.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

class SocketEndpoint : public Communicator {
 public:
  // Objects referred to by `context` outlive this. `sockets`: by member of the key; none to itself.
  SocketEndpoint(const WorldContext& context, const ChannelKey& key, int rank,
                 std::vector<Socket> sockets);

  // Errors: as in Communicator; kIo, a member's process has gone.
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
  // Moves all pieces at once; pieces without bytes are skipped.
  Result<void> Exchange(std::vector<Piece> pieces, const CommCall& call);
  // Sends or receives as much of a piece as possible without waiting. Errors: the member has gone.
  Result<void> Advance(Piece& piece, bool& moved, const CommCall& call);
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
  std::vector<Socket> sockets_;
  std::int64_t sequence_ = 0;
  std::vector<char> room_;  // other members' parts of a sum
};

}  // namespace foretrain
