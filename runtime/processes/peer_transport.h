// Moves bytes between the members of one communicator, which are processes.
// runtime/processes/peer_endpoint.h decides what moves. Two transports move it: shared memory
// (runtime/ucx/) and sockets (runtime/processes/sockets/).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "runtime/run/rank_world.h"

namespace foretrain {

// Bytes to send to or receive from a member.
struct Piece {
  int member = 0;
  bool sends = false;
  char* at = nullptr;
  std::int64_t bytes = 0;
};

struct TransportState {
  bool finished = false;  // all pieces have moved, and the peers need no further call of Advance
  std::int64_t done = 0;  // grows while pieces move; 0 at Start
  int member = 0;         // one that is waited for, or the one in trouble
  std::string trouble;    // why no more will move; "" if nothing is wrong
};

// One thread at a time.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;

  // Starts to move all pieces at once. Start and Advance alone touch their memory, which is the
  // caller's again once Advance says `finished`, or is not called any more. Pieces between two
  // members arrive in the order of their sends; both ends give the same sizes. Called only if
  // nothing is in progress.
  virtual void Start(std::span<const Piece> pieces) = 0;
  // Waits up to `ms` for something to move, without using a core meanwhile.
  virtual TransportState Advance(int ms) = 0;
};

// A rank's transports, connected with their peers.
using Transports = std::map<ChannelKey, std::unique_ptr<PeerTransport>>;

}  // namespace foretrain
