#include "runtime/ucx/ucx.h"

#if __has_include(<ucp/api/ucp.h>)
#define FT_HAVE_UCX_HEADER
#include <dlfcn.h>
#include <poll.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>
#endif

namespace foretrain {

#ifdef FT_HAVE_UCX_HEADER
namespace {

using Clock = std::chrono::steady_clock;

// Larger pieces move as several messages, so that a slow peer shows progress before a deadline.
constexpr std::int64_t kMessageBytes = std::int64_t{1} << 24;
// A short wait is shorter than putting the thread to sleep.
constexpr auto kSpin = std::chrono::microseconds(10);
// Between looks for room in a peer's queue, which then holds 0.5 MB.
constexpr auto kLookAgain = std::chrono::microseconds(50);

// The library's functions that are called here, with the types of its header.
struct Functions {
#define FT_UCX(name) decltype(&::name) name = nullptr
  FT_UCX(ucp_get_version);
  FT_UCX(ucp_config_read);
  FT_UCX(ucp_config_modify);
  FT_UCX(ucp_config_release);
  FT_UCX(ucp_init_version);
  FT_UCX(ucp_cleanup);
  FT_UCX(ucp_worker_create);
  FT_UCX(ucp_worker_destroy);
  FT_UCX(ucp_worker_get_address);
  FT_UCX(ucp_worker_release_address);
  FT_UCX(ucp_worker_get_efd);
  FT_UCX(ucp_worker_progress);
  FT_UCX(ucp_worker_arm);
  FT_UCX(ucp_ep_create);
  FT_UCX(ucp_ep_flush_nbx);
  FT_UCX(ucp_tag_send_nbx);
  FT_UCX(ucp_tag_recv_nbx);
  FT_UCX(ucp_tag_recv_request_test);
  FT_UCX(ucp_request_cancel);
  FT_UCX(ucp_request_check_status);
  FT_UCX(ucp_request_free);
  FT_UCX(ucs_status_string);
#undef FT_UCX
};

template <class Function>
Result<void> Find(void* library, const char* name, const std::string& file, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  if (out != nullptr) return {};
  return Fail(ErrorCode::kUnsupported,
              file + " has no function " + name + "; UCX 1.13 or a later 1.x is needed");
}

// RTLD_LOCAL keeps UCX's symbols from clashing with those of other libraries. The handle is never
// closed: the functions point into the library. Its handlers of SIGSEGV and the like would hide a
// crash from those of the program, and its log goes to stdout.
Result<Functions> Load(const std::string& file) {
  setenv("UCX_HANDLE_ERRORS", "none", /*replace=*/0);
  setenv("UCX_LOG_LEVEL", "fatal", /*replace=*/0);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    return Fail(ErrorCode::kUnsupported, text != nullptr ? text : file + " does not load");
  }
  Functions found;
#define FT_UCX(name) FT_TRY(Find(library, #name, file, found.name))
  FT_UCX(ucp_get_version);
  FT_UCX(ucp_config_read);
  FT_UCX(ucp_config_modify);
  FT_UCX(ucp_config_release);
  FT_UCX(ucp_init_version);
  FT_UCX(ucp_cleanup);
  FT_UCX(ucp_worker_create);
  FT_UCX(ucp_worker_destroy);
  FT_UCX(ucp_worker_get_address);
  FT_UCX(ucp_worker_release_address);
  FT_UCX(ucp_worker_get_efd);
  FT_UCX(ucp_worker_progress);
  FT_UCX(ucp_worker_arm);
  FT_UCX(ucp_ep_create);
  FT_UCX(ucp_ep_flush_nbx);
  FT_UCX(ucp_tag_send_nbx);
  FT_UCX(ucp_tag_recv_nbx);
  FT_UCX(ucp_tag_recv_request_test);
  FT_UCX(ucp_request_cancel);
  FT_UCX(ucp_request_check_status);
  FT_UCX(ucp_request_free);
  FT_UCX(ucs_status_string);
#undef FT_UCX
  return found;
}

Error Failed(const Functions& call, const std::string& what, ucs_status_t status) {
  return {ErrorCode::kIo, "UCX: " + what + ": " + call.ucs_status_string(status)};
}

class Transport final : public UcxTransport {
 public:
  Transport(const Functions& call, int member, int members)
      : call_(call), member_(member), peers_(static_cast<std::size_t>(members)) {}
  ~Transport() override;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  Result<void> Open(ucp_context_h context);

  const std::string& address() const override { return address_; }
  Result<void> Connect(int member, const std::string& address) override;
  void Start(std::span<const Piece> pieces) override;
  TransportState Advance(int ms) override;

 private:
  enum class Kind { kReceive, kSend, kFlush };
  // A message or a flush that has been asked for.
  struct Transfer {
    Kind kind = Kind::kReceive;
    int member = 0;
    std::int64_t bytes = 0;
    void* request = nullptr;  // null: complete
  };

  void Post(Kind kind, int member, char* at, std::int64_t bytes);
  void Flush();
  void Collect();
  bool IsFinished() const { return flushing_ && done_ == transfers_.size(); }
  TransportState State() const;

  const Functions& call_;
  const int member_;
  ucp_worker_h worker_ = nullptr;
  int event_ = -1;  // descriptor that is readable if UCX has something to do; UCX owns it
  std::string address_;
  std::vector<ucp_ep_h> peers_;      // by member; null for this one
  std::vector<Transfer> transfers_;  // in the order of their start
  std::size_t done_ = 0;             // the first so many are complete
  bool flushing_ = false;            // flushes follow the messages
  int trouble_with_ = 0;
  std::string trouble_;
};

Result<void> Transport::Open(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made by one thread, used by another
  ucs_status_t status = call_.ucp_worker_create(context, &params, &worker_);
  if (status != UCS_OK) {
    worker_ = nullptr;
    return tl::unexpected<Error>(Failed(call_, "no worker; it needs room in /dev/shm", status));
  }
  status = call_.ucp_worker_get_efd(worker_, &event_);
  if (status != UCS_OK) return tl::unexpected<Error>(Failed(call_, "no event", status));
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  status = call_.ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return tl::unexpected<Error>(Failed(call_, "no address", status));
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  call_.ucp_worker_release_address(worker_, address);
  return {};
}

// Requests in progress go with the worker.
Transport::~Transport() {
  if (worker_ == nullptr) return;
  for (const Transfer& transfer : transfers_) {
    if (transfer.request == nullptr) continue;
    if (transfer.kind == Kind::kReceive) call_.ucp_request_cancel(worker_, transfer.request);
    call_.ucp_request_free(transfer.request);
  }
  call_.ucp_worker_destroy(worker_);
}

Result<void> Transport::Connect(int member, const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  ucp_ep_h& peer = peers_[static_cast<std::size_t>(member)];
  const ucs_status_t status = call_.ucp_ep_create(worker_, &params, &peer);
  if (status == UCS_OK) return {};
  peer = nullptr;
  return tl::unexpected<Error>(Failed(call_, "no memory is shared", status));
}

// A message's tag is its sender's member number: UCX keeps the order of messages of one tag between
// two workers, and both ends make their calls in one order. UCX 1.13 does not tell the size of a
// message that was there before its receive; of a request it does, so each receive asks for one.
void Transport::Post(Kind kind, int member, char* at, std::int64_t bytes) {
  ucp_request_param_t params{};
  const auto size = static_cast<std::size_t>(bytes);
  void* request = nullptr;
  if (kind == Kind::kReceive) {
    params.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    request = call_.ucp_tag_recv_nbx(worker_, at, size, static_cast<ucp_tag_t>(member),
                                     ~ucp_tag_t{0}, &params);
  } else {
    const ucp_ep_h peer = peers_[static_cast<std::size_t>(member)];
    request = kind == Kind::kFlush ? call_.ucp_ep_flush_nbx(peer, &params)
                                   : call_.ucp_tag_send_nbx(
                                         peer, at, size, static_cast<ucp_tag_t>(member_), &params);
  }
  if (UCS_PTR_IS_ERR(request)) {
    if (trouble_.empty()) trouble_ = call_.ucs_status_string(UCS_PTR_STATUS(request));
    trouble_with_ = member;
    request = nullptr;
  }
  transfers_.push_back({kind, member, bytes, request});
}

// Receives are posted first: messages that have come already need not be copied twice.
void Transport::Start(std::span<const Piece> pieces) {
  transfers_.clear();
  done_ = 0;
  flushing_ = false;
  for (const bool sends : {false, true}) {
    for (const Piece& piece : pieces) {
      for (std::int64_t at = 0; piece.sends == sends && at < piece.bytes; at += kMessageBytes) {
        Post(sends ? Kind::kSend : Kind::kReceive, piece.member, piece.at + at,
             std::min(kMessageBytes, piece.bytes - at));
      }
    }
  }
}

// A send is complete once its memory may change, and a receive once its memory is filled. Messages
// of UCX may then still wait for room on their way, and this thread may not call for a long time:
// the peer would wait, and with it perhaps a call that this rank waits for.
void Transport::Flush() {
  flushing_ = true;
  std::vector<bool> met(peers_.size());
  for (const Transfer& transfer : transfers_) met[static_cast<std::size_t>(transfer.member)] = true;
  for (int member = 0; member < static_cast<int>(met.size()); ++member) {
    if (met[static_cast<std::size_t>(member)]) Post(Kind::kFlush, member, nullptr, 0);
  }
}

// Frees the requests that have ended, in the order of their start. All are waited for anyway.
void Transport::Collect() {
  for (; trouble_.empty(); ++done_) {
    if (done_ == transfers_.size() && !flushing_) Flush();
    if (done_ == transfers_.size()) return;
    Transfer& transfer = transfers_[done_];
    if (transfer.request == nullptr) continue;
    const bool receives = transfer.kind == Kind::kReceive;
    const auto bytes = static_cast<std::size_t>(transfer.bytes);
    ucp_tag_recv_info_t came{0, bytes};
    const ucs_status_t status = receives ? call_.ucp_tag_recv_request_test(transfer.request, &came)
                                         : call_.ucp_request_check_status(transfer.request);
    if (status == UCS_INPROGRESS) return;
    call_.ucp_request_free(std::exchange(transfer.request, nullptr));
    if (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && came.length != bytes)) {
      trouble_ = "it sent another number of bytes than the " + std::to_string(bytes) +
                 " that are expected";
    } else if (status != UCS_OK) {
      trouble_ = call_.ucs_status_string(status);
    }
    trouble_with_ = transfer.member;
  }
}

TransportState Transport::State() const {
  TransportState state{IsFinished(), static_cast<std::int64_t>(done_), trouble_with_, trouble_};
  if (trouble_.empty() && done_ < transfers_.size()) state.member = transfers_[done_].member;
  return state;
}

// Sleeps until UCX's event once UCX has said that nothing is left to do. It has no event for room
// in a peer's queue and refuses to arm one while sends wait for that: then this end looks now and
// then. An event that came earlier makes arming fail too, but not for long.
TransportState Transport::Advance(int ms) {
  constexpr int kTries = 4;
  const std::size_t before = done_;
  const auto deadline = Clock::now() + std::chrono::milliseconds(ms);
  auto spin_until = Clock::now() + kSpin;
  for (int refused = 0;;) {
    while (call_.ucp_worker_progress(worker_) != 0) spin_until = Clock::now() + kSpin;
    Collect();
    if (IsFinished() || done_ != before || !trouble_.empty()) return State();
    const auto now = Clock::now();
    if (now < spin_until) continue;
    if (now >= deadline) return State();
    if (call_.ucp_worker_arm(worker_) == UCS_OK) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
      pollfd event{event_, POLLIN, 0};
      static_cast<void>(poll(&event, 1, static_cast<int>(left.count())));
      refused = 0;
    } else if (++refused % kTries == 0) {
      std::this_thread::sleep_for(kLookAgain);
    }
  }
}

class Library final : public Ucx {
 public:
  explicit Library(const Functions& call) : call_(call) {}
  ~Library() override {
    if (context_ != nullptr) call_.ucp_cleanup(context_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Result<void> Open();
  std::string Version() const override;
  Result<std::unique_ptr<UcxTransport>> Make(int member, int members) const override {
    auto made = std::make_unique<Transport>(call_, member, members);
    FT_TRY(made->Open(context_));
    return made;
  }

 private:
  const Functions call_;
  ucp_context_h context_ = nullptr;
};

// The user's UCX_TLS is for other programs. A worker takes 0.6 MB of shared memory instead of 4.3
// MB; it grows if a peer sends more.
Result<void> Library::Open() {
  unsigned major = 0, minor = 0, release = 0;
  call_.ucp_get_version(&major, &minor, &release);
  if (major != 1 || minor < 13) {
    return Fail(ErrorCode::kUnsupported,
                "it is UCX " + Version() + "; 1.13 or a later 1.x is needed");
  }
  ucp_config_t* config = nullptr;
  ucs_status_t status = call_.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return tl::unexpected<Error>(Failed(call_, "its variables UCX_*", status));
  }
  for (const auto& [name, value] : {std::pair{"TLS", "posix"}, {"POSIX_RX_BUFS_GROW", "64"}}) {
    if (status == UCS_OK) status = call_.ucp_config_modify(config, name, value);
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  if (status == UCS_OK) {
    status = call_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  }
  call_.ucp_config_release(config);
  if (status == UCS_OK) return {};
  context_ = nullptr;
  return tl::unexpected<Error>(Failed(call_, "no shared memory", status));
}

std::string Library::Version() const {
  unsigned major = 0, minor = 0, release = 0;
  call_.ucp_get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace

// A first transport finds out what a run's would.
Result<std::shared_ptr<const Ucx>> OpenUcx(const std::string& file) {
  FT_ASSIGN(const Functions functions, Load(file));
  const auto made = std::make_shared<Library>(functions);
  FT_TRY(made->Open());
  FT_TRY(made->Make(0, 1));
  return std::shared_ptr<const Ucx>(made);
}

#else

Result<std::shared_ptr<const Ucx>> OpenUcx(const std::string&) {
  return Fail(ErrorCode::kUnsupported, "this build was made without libucx-dev");
}

#endif

}  // namespace foretrain
