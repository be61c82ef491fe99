#include "runtime/processes/reception.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace foretrain {
namespace {

enum : char { kHello = 'H', kWelcome = 'A', kRefusal = 'Z' };

constexpr std::int64_t kHelloNs = 5'000'000'000;  // time for a hello, and for an answer to it
constexpr std::int64_t kMaxText = 1 << 16;        // a hello may name all ranks of a communicator
constexpr std::size_t kMaxWaiting = 256;          // connections without a hello

std::int64_t MaxOfHello(char type) { return type == kHello ? kMaxText : -1; }
std::int64_t MaxOfAnswer(char type) { return type == kWelcome || type == kRefusal ? kMaxText : -1; }

}  // namespace

Reception::Reception(const Socket& listener, std::string key, std::int64_t timeout_ns)
    : listener_(listener), key_(std::move(key)), timeout_ns_(timeout_ns) {}

void Reception::Refuse(const std::string& why) {
  if (++refused_ == 1) first_why_ = why;
  last_why_ = why;
}

std::string Reception::RefusedText() const {
  if (refused_ == 0) return "";
  if (refused_ == 1) return "; refused 1 connection: " + first_why_;
  return "; refused " + std::to_string(refused_) + " connections, the first: " + first_why_ +
         (last_why_ == first_why_ ? "" : ", the last: " + last_why_);
}

// In a flood the oldest connections are dropped: a process of the job says hello within
// milliseconds, and dials again if it was dropped.
std::optional<Joined> Reception::Next(int ms) {
  std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
  for (const Connection& one : waiting_) polled.push_back({one.socket().get(), POLLIN, 0});
  static_cast<void>(poll(polled.data(), polled.size(), ms));
  for (std::size_t i = 0; i < waiting_.size();) {
    auto hello = waiting_[i].Receive(&MaxOfHello);
    const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(i);
    if (!hello.has_value()) {
      Refuse(hello.error().message);
      waiting_.erase(at);
    } else if (!hello->has_value()) {
      ++i;
    } else {
      Joined joined{std::move(waiting_[i]), std::move((*hello)->text)};
      joined.connection.SetPatience(timeout_ns_);
      waiting_.erase(at);
      return joined;
    }
  }
  for (std::size_t taken = 0; taken < kMaxWaiting; ++taken) {
    Socket peer = Accept(listener_);
    if (!peer.is_open()) break;
    if (waiting_.size() == kMaxWaiting) {
      Refuse("too many connections at once");
      waiting_.erase(waiting_.begin());
    }
    waiting_.emplace_back(std::move(peer), Connection::Side::kAccepts, key_,
                          std::min(kHelloNs, timeout_ns_));
  }
  return std::nullopt;
}

Result<Joined> Dial(const std::string& address, int port, const std::string& key,
                    std::string_view hello, std::int64_t timeout_ns, Deadline by) {
  by = std::min(by, DeadlineIn(kHelloNs));
  FT_ASSIGN(Socket socket, ConnectTo(address, port, by));
  Connection connection(std::move(socket), Connection::Side::kConnects, key, timeout_ns);
  while (!connection.IsKeyed()) {
    // No frame comes before the hello, so this reads the greeting alone.
    FT_TRY(connection.Receive(&MaxOfAnswer));
    if (connection.IsKeyed()) break;
    if (MsUntil(by) == 0) return Fail(ErrorCode::kTimeout, "it does not answer");
    static_cast<void>(IsReady(connection.socket(), POLLIN, MsUntil(by)));
  }
  FT_TRY(connection.Send(kHello, hello, by));
  auto answer = connection.Await(&MaxOfAnswer, by);
  if (!answer.has_value()) {
    return Fail(answer.error().code, "it does not welcome this process: " + answer.error().message +
                                         "; all processes need the same job token");
  }
  if (answer->type == kRefusal) {
    return Fail(ErrorCode::kInvalidArgument, Printable(answer->text, 1000));
  }
  return Joined{std::move(connection), std::move(answer->text)};
}

Result<void> Welcome(Connection& connection, std::string_view text) {
  return connection.Send(kWelcome, text, DeadlineIn(kHelloNs));
}

void TurnAway(Connection& connection, const std::string& why) {
  // The process that came learns of it from the closed connection too.
  static_cast<void>(connection.Send(kRefusal, why, DeadlineIn(kHelloNs)));
}

}  // namespace foretrain
