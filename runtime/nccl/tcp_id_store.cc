// Ids over TCP. One request a connection:
//
//   'P' length name length value          answered by 'K'
//   'G' length name                       answered by 'V' length value, or 'N': not there yet
//
// Lengths are 4 bytes, the least first, and at most kMostBytes.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/units.h"
#include "runtime/nccl/id_store.h"

namespace foretrain {
namespace {

constexpr std::uint32_t kMostBytes = 1 << 16;
constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr int kPatienceMs = 2000;  // with a connection in the middle of a request

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool WaitFor(int socket, short events, int ms) {
  pollfd waited{socket, events, 0};
  return poll(&waited, 1, ms) > 0;
}

bool Send(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    if (!WaitFor(socket, POLLOUT, kPatienceMs)) return false;
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool Receive(int socket, char* to, std::size_t bytes) {
  while (bytes > 0) {
    if (!WaitFor(socket, POLLIN, kPatienceMs)) return false;
    const ssize_t came = recv(socket, to, bytes, 0);
    if (came <= 0) return false;
    to += came;
    bytes -= static_cast<std::size_t>(came);
  }
  return true;
}

std::string Framed(std::string_view text) {
  std::string framed;
  for (int byte = 0; byte < 4; ++byte) {
    framed += static_cast<char>(text.size() >> (8 * byte) & 0xff);
  }
  return framed.append(text);
}

bool ReceiveText(int socket, std::string& out) {
  std::array<unsigned char, 4> length{};
  if (!Receive(socket, reinterpret_cast<char*>(length.data()), length.size())) return false;
  std::uint32_t bytes = 0;
  for (std::size_t byte = 0; byte < 4; ++byte) {
    bytes |= std::uint32_t{length[byte]} << (8 * byte);
  }
  if (bytes > kMostBytes) return false;
  out.resize(bytes);
  return Receive(socket, out.data(), out.size());
}

// Rank 0's: answers until it goes.
class Server {
 public:
  static Result<std::unique_ptr<Server>> Make(int port) {
    std::unique_ptr<Server> server(new Server);
    Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (listener.get() < 0 ||
        setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0) {
      return Fail(ErrorCode::kIo, "rank 0 listens at port " + std::to_string(port) + ": " +
                                      std::strerror(errno) + "; set MASTER_PORT to a free one");
    }
    server->listener_ = std::move(listener);
    server->thread_ = std::thread([at = server.get()] { at->Run(); });
    return server;
  }
  ~Server() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  Server() = default;
  void Run() {
    while (!over_) {
      if (!WaitFor(listener_.get(), POLLIN, /*ms=*/50)) continue;
      const Socket peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.get() >= 0) Answer(peer.get());
    }
  }
  void Answer(int peer) {
    char what = 0;
    std::string name, value;
    if (!Receive(peer, &what, 1) || !ReceiveText(peer, name)) return;
    if (what == 'P' && ReceiveText(peer, value)) {
      values_[name] = value;
      static_cast<void>(Send(peer, "K"));
    } else if (what == 'G') {
      const auto found = values_.find(name);
      static_cast<void>(
          Send(peer, found == values_.end() ? std::string("N") : "V" + Framed(found->second)));
    }
  }

  Socket listener_;
  std::atomic<bool> over_{false};
  std::map<std::string, std::string> values_;  // the thread's
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
  // Until the store answers with what was asked for.
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
  bool Exchange(const std::string& request, char& answer, std::string& value,
                std::string& why) const {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(at_.port);
    if (const int error = getaddrinfo(at_.address.c_str(), port.c_str(), &hints, &found);
        error != 0) {
      why = gai_strerror(error);
      return false;
    }
    const Socket socket(::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0));
    const bool connected =
        socket.get() >= 0 && connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0;
    if (!connected) why = std::strerror(errno);
    freeaddrinfo(found);
    if (!connected) return false;
    if (Send(socket.get(), request) && Receive(socket.get(), &answer, 1) &&
        (answer != 'V' || ReceiveText(socket.get(), value))) {
      return true;
    }
    why = "rank 0 did not answer";
    return false;
  }

  const LaunchedRank at_;
  const std::int64_t timeout_ns_;
  const std::unique_ptr<Server> server_;  // of rank 0
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
