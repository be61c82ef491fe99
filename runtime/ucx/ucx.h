// Shared memory between processes of one machine, by UCX [1]. UCX is loaded at run time, so nothing
// needs it. runtime/ucx/ucx_mesh.h connects ranks.
//
// Leaves out UCX's other transports. Its TCP authenticates nothing, and its single copies between
// processes (cma) may allow every process of the user to read this one.
//
// [1] https://openucx.org
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/processes/peer_transport.h"

namespace foretrain {

// The end of one member of a communicator.
class UcxTransport : public PeerTransport {
 public:
  // By which the other members reach it: bytes that only UCX understands.
  virtual const std::string& address() const = 0;
  // Once for each other member, before pieces move. Errors: kIo, the two share no memory.
  virtual Result<void> Connect(int member, const std::string& address) = 0;
};

// The loaded library. It outlives the transports that it makes.
class Ucx {
 public:
  virtual ~Ucx() = default;
  virtual std::string Version() const = 0;  // "1.13.1"
  // Errors: kIo, with the library's text, for instance if there is no room in /dev/shm.
  virtual Result<std::unique_ptr<UcxTransport>> Make(int member, int members) const = 0;
};

// Loads the library `file` and tries its shared memory. Sets UCX's variables that it reads when it
// is loaded, unless the user has: no other thread may read the environment meanwhile. Errors:
// kUnsupported, the library does not load or is older than 1.13, or the build was made without its
// header; kIo, it has no shared memory.
Result<std::shared_ptr<const Ucx>> OpenUcx(const std::string& file = "libucp.so.0");

}  // namespace foretrain
