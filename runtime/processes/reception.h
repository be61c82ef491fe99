// How two processes of a job connect: one listens, the other dials, and each proves that it has the
// job's key before anything that it says is used.
//
//   dials ── hello ───────────────► listens
//         ◄── welcome or failure ──
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/processes/wire/connection.h"

namespace foretrain {

// An authenticated connection and the text with which the other end opened it.
struct Joined {
  Connection connection;
  std::string text;
};

// Accepts connections, many at a time: one that is slow or says nothing holds up no other.
class Reception {
 public:
  //   listener    borrowed
  //   key         the job's
  //   timeout_ns  time for each frame after the hello, from its first byte; a hello has 5 s, or
  //               this if it is shorter
  Reception(const Socket& listener, std::string key, std::int64_t timeout_ns);

  // Waits up to `ms` for a connection that has said hello. The caller answers it.
  std::optional<Joined> Next(int ms);
  // For the end of a message: "; 3 connections were refused, the last because ..."; or "".
  std::string RefusedText() const;

 private:
  void Refuse(const std::string& why);

  const Socket& listener_;
  const std::string key_;
  const std::int64_t timeout_ns_;
  std::vector<Connection> waiting_;  // without a hello yet, oldest first
  std::int64_t refused_ = 0;
  std::string first_why_;  // of the first that was refused
  std::string last_why_;
};

// Connects to a Reception, says `hello` and returns its welcome. Errors: kIo and kTimeout, it does
// not answer or has another key; kInvalidArgument, it refuses this process, with its reason.
Result<Joined> Dial(const std::string& address, int port, const std::string& key,
                    std::string_view hello, std::int64_t timeout_ns, Deadline by);

// The answers to a hello.
Result<void> Welcome(Connection& connection, std::string_view text);
void TurnAway(Connection& connection, const std::string& why);

}  // namespace foretrain
