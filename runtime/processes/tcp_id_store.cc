// An IdStore over TCP. One request for each connection:
//
//   'P' length name length value          answered by 'K'
//   'G' length name                       answered by 'V' length value, or 'N': not there yet
//
// Lengths are 4 bytes, little-endian, and at most kMaxBytes.
#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "base/units.h"
#include "runtime/processes/id_store.h"
#include "runtime/processes/socket.h"

namespace foretrain {
namespace {

constexpr std::uint32_t kMaxBytes = 1 << 16;
constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr int kPatienceMs = 2000;  // wait for the rest of a request

// The server of rank 0; it answers until it is destroyed.
class Server {
 public:
  static Result<std::unique_ptr<Server>> Make(int port) {
    std::unique_ptr<Server> server(new Server);
    auto listener = ListenAt(port);
    if (!listener.has_value()) {
      return Fail(ErrorCode::kIo, "rank 0 listens at port " + std::to_string(port) + ": " +
                                      listener.error().message + "; set MASTER_PORT to a free one");
    }
    server->listener_ = *std::move(listener);
    server->thread_ = std::thread([at = server.get()] { at->Run(); });
    return server;
  }
  ~Server() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  Server() = default;
  // Requests are answered one at a time by one thread, so values_ needs no lock. A request is
  // short, and kPatienceMs bounds a peer that stops sending.
  void Run() {
    while (!over_) {
      const Socket peer = AcceptWithin(listener_, /*ms=*/50);
      if (peer.is_open()) Answer(peer);
    }
  }
  // A Get is answered at once, even if the value is not there yet: the other end asks again after
  // kRetry. No connection waits here.
  void Answer(const Socket& peer) {
    char what = 0;
    std::string name, value;
    if (!ReceiveAll(peer, &what, 1, kPatienceMs) ||
        !ReceiveText(peer, name, kMaxBytes, kPatienceMs)) {
      return;
    }
    if (what == 'P' && ReceiveText(peer, value, kMaxBytes, kPatienceMs)) {
      values_[name] = value;
      static_cast<void>(SendAll(peer, "K", kPatienceMs));
    } else if (what == 'G') {
      const auto found = values_.find(name);
      static_cast<void>(
          SendAll(peer, found == values_.end() ? std::string("N") : "V" + Framed(found->second),
                  kPatienceMs));
    }
  }

  Socket listener_;
  std::atomic<bool> over_{false};
  std::map<std::string, std::string> values_;  // used by the thread only
  std::thread thread_;
};

class TcpIdStore : public IdStore {
 public:
  TcpIdStore(LaunchedRank at, std::int64_t timeout_ns, std::unique_ptr<Server> server)
      : at_(std::move(at)), timeout_ns_(timeout_ns), server_(std::move(server)) {}

  Result<void> Put(const std::string& name, const std::string& value) override {
    FT_TRY(Ask("P" + Framed(name) + Framed(value), name, nullptr));
    return {};
  }
  Result<std::string> Get(const std::string& name, const std::function<bool()>& over) override {
    return Ask("G" + Framed(name), name, over);
  }

 private:
  // Repeats the request until the store has the answer, the deadline passes, or `over` returns
  // true.
  Result<std::string> Ask(const std::string& request, const std::string& name,
                          const std::function<bool()>& over) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns_);
    std::string why = "nobody has told of it";
    do {
      std::string value;
      char answer = 0;
      if (Exchange(request, answer, value, why)) {
        if (answer == 'K' || answer == 'V') return value;
        why = "nobody has told of it";
      }
      if (over && over()) return Fail(ErrorCode::kAborted, "stopped while it waited for " + name);
      std::this_thread::sleep_for(kRetry);
    } while (std::chrono::steady_clock::now() < deadline);
    return Fail(ErrorCode::kTimeout, "rank " + std::to_string(at_.rank) + " waited " +
                                         FormatSeconds(SecondsFromNs(timeout_ns_)) + " for " +
                                         name + " at " + at_.address + ":" +
                                         std::to_string(at_.port) + ": " + why);
  }
  // Each request has its own connection, so it does not matter which of the ranks starts first.
  bool Exchange(const std::string& request, char& answer, std::string& value,
                std::string& why) const {
    const auto socket = ConnectTo(at_.address, at_.port);
    if (!socket.has_value()) {
      why = socket.error().message;
      return false;
    }
    if (SendAll(*socket, request, kPatienceMs) && ReceiveAll(*socket, &answer, 1, kPatienceMs) &&
        (answer != 'V' || ReceiveText(*socket, value, kMaxBytes, kPatienceMs))) {
      return true;
    }
    why = "rank 0 did not answer";
    return false;
  }

  const LaunchedRank at_;
  const std::int64_t timeout_ns_;
  const std::unique_ptr<Server> server_;  // rank 0 only
};

}  // namespace

Result<std::unique_ptr<IdStore>> MakeTcpIdStore(const LaunchedRank& at, std::int64_t timeout_ns) {
  std::unique_ptr<Server> server;
  if (at.rank == 0) {
    FT_ASSIGN(server, Server::Make(at.port));
  }
  return std::unique_ptr<IdStore>(std::make_unique<TcpIdStore>(at, timeout_ns, std::move(server)));
}

}  // namespace foretrain
