#include "runtime/ucx/ucx_worker.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

// Larger pieces move as several messages, so that a slow network shows progress before a deadline.
constexpr std::int64_t kMessageBytes = std::int64_t{1} << 24;
// A short wait is shorter than putting the thread to sleep: two ranks exchange 64 bytes through
// shared memory in 1 us, and in 5 us or more if both sleep.
constexpr auto kSpin = std::chrono::microseconds(10);
// Time for cancelled transfers to end, before the worker goes with them.
constexpr auto kCancelWithin = std::chrono::milliseconds(200);

Error Failed(const UcxApi& ucx, const std::string& what, UcxStatus status) {
  return {ErrorCode::kIo, "UCX: " + what + ": " + ucx.ucs_status_string(status)};
}

}  // namespace

Result<std::unique_ptr<UcxContext>> UcxContext::Make(const UcxApi& ucx,
                                                     const std::string& transports,
                                                     const std::string& device) {
  UcxConfigHandle* config = nullptr;
  UcxStatus status = ucx.ucp_config_read(nullptr, nullptr, &config);
  if (status != kUcxOk) return tl::unexpected<Error>(Failed(ucx, "its variables UCX_*", status));
  const bool chosen =
      std::getenv("UCX_TLS") != nullptr || std::getenv("UCX_NET_DEVICES") != nullptr;
  if (!chosen) {
    status = ucx.ucp_config_modify(config, "TLS", transports.c_str());
    if (status == kUcxOk && !device.empty()) {
      status = ucx.ucp_config_modify(config, "NET_DEVICES", device.c_str());
    }
  }
  UcxContextHandle* handle = nullptr;
  if (status == kUcxOk) {
    UcxParams params;
    params.field_mask = UcxParams::kFeatures | UcxParams::kMtWorkersShared;
    params.features = UcxParams::kTag | UcxParams::kWakeup;
    params.mt_workers_shared = 1;
    status = ucx.ucp_init_version(1, 13, &params, config, &handle);
  }
  ucx.ucp_config_release(config);
  if (status != kUcxOk) return tl::unexpected<Error>(Failed(ucx, "no context", status));
  return std::unique_ptr<UcxContext>(new UcxContext(ucx, handle));
}

Result<std::unique_ptr<UcxWorker>> UcxWorker::Make(const UcxContext& context, int member,
                                                   int members) {
  const UcxApi& ucx = context.ucx();
  std::unique_ptr<UcxWorker> made(new UcxWorker(ucx, member, members));
  UcxWorkerParams params;
  params.field_mask = UcxWorkerParams::kThreadMode;
  params.thread_mode = UcxWorkerParams::kSerialized;  // made by one thread, used by another
  UcxStatus status = ucx.ucp_worker_create(context.handle(), &params, &made->worker_);
  if (status != kUcxOk) return tl::unexpected<Error>(Failed(ucx, "no worker", status));
  status = ucx.ucp_worker_get_efd(made->worker_, &made->event_);
  if (status != kUcxOk) return tl::unexpected<Error>(Failed(ucx, "no event", status));
  UcxAddress* address = nullptr;
  std::size_t bytes = 0;
  status = ucx.ucp_worker_get_address(made->worker_, &address, &bytes);
  if (status != kUcxOk) return tl::unexpected<Error>(Failed(ucx, "no address", status));
  made->address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx.ucp_worker_release_address(made->worker_, address);
  return made;
}

Result<void> UcxWorker::Connect(int member, const std::string& address) {
  Peer& peer = peers_[static_cast<std::size_t>(member)];
  peer.owner = this;
  peer.member = member;
  UcxEndpointParams params;
  params.field_mask = UcxEndpointParams::kRemoteAddress | UcxEndpointParams::kErrorMode |
                      UcxEndpointParams::kErrorHandler;
  params.address = reinterpret_cast<const UcxAddress*>(address.data());
  params.error_mode = UcxEndpointParams::kPeerErrors;
  params.on_error = &OnError;
  params.user = &peer;
  const UcxStatus status = ucx_.ucp_ep_create(worker_, &params, &peer.endpoint);
  if (status == kUcxOk) return {};
  peer.endpoint = nullptr;
  return tl::unexpected<Error>(Failed(ucx_, "no way to the other process", status));
}

void UcxWorker::SetTrouble(int member, const std::string& why) {
  if (!trouble_.empty()) return;
  trouble_with_ = member;
  trouble_ = why;
}

void UcxWorker::OnError(void* peer, UcxEndpoint*, UcxStatus status) {
  const Peer& at = *static_cast<const Peer*>(peer);
  at.owner->SetTrouble(at.member, at.owner->ucx_.ucs_status_string(status));
}

void UcxWorker::OnSent(void* request, UcxStatus status, void* slot) {
  Slot& at = *static_cast<Slot*>(slot);
  at.owner->Complete(at, status, static_cast<std::size_t>(at.bytes));
  at.owner->ucx_.ucp_request_free(request);
}

void UcxWorker::OnReceived(void* request, UcxStatus status, const UcxReceived* received,
                           void* slot) {
  Slot& at = *static_cast<Slot*>(slot);
  at.owner->Complete(at, status, received->bytes);
  at.owner->ucx_.ucp_request_free(request);
}

void UcxWorker::Complete(Slot& slot, UcxStatus status, std::size_t came) {
  slot.request = nullptr;
  --pending_;
  ++done_;
  const auto bytes = static_cast<std::size_t>(slot.bytes);
  if (status == kUcxTruncated || (status == kUcxOk && came != bytes)) {
    SetTrouble(slot.member, "it sent another number of bytes than the " + std::to_string(bytes) +
                                " that are expected");
  } else if (status != kUcxOk) {
    SetTrouble(slot.member, ucx_.ucs_status_string(status));
  }
}

// A message's tag is its sender's member number: UCX keeps the order of messages of one tag between
// two workers, and both ends make their calls in one order.
void UcxWorker::Post(Slot& slot, char* at) {
  UcxRequestParams params;
  params.mask = UcxRequestParams::kCallback | UcxRequestParams::kUser;
  params.user = &slot;
  const auto bytes = static_cast<std::size_t>(slot.bytes);
  ++pending_;
  if (slot.receives) {
    params.mask |= UcxRequestParams::kReceived;
    params.received = &OnReceived;
    params.received_at_once = &slot.received;
    slot.request = ucx_.ucp_tag_recv_nbx(
        worker_, at, bytes, static_cast<std::uint64_t>(slot.member), ~std::uint64_t{0}, &params);
  } else {
    params.sent = &OnSent;
    slot.request = ucx_.ucp_tag_send_nbx(peers_[static_cast<std::size_t>(slot.member)].endpoint, at,
                                         bytes, static_cast<std::uint64_t>(member_), &params);
  }
  if (slot.request == nullptr) {
    Complete(slot, kUcxOk, slot.receives ? slot.received.bytes : bytes);
  } else if (IsUcxError(slot.request)) {
    Complete(slot, UcxErrorOf(slot.request), bytes);
  }
}

// Receives are posted first: what has come already need not be copied twice.
void UcxWorker::Start(std::span<const Piece> pieces) {
  slots_.clear();
  flushes_.clear();
  flushing_ = false;
  done_ = 0;
  std::vector<char*> places;
  for (const bool sends : {false, true}) {
    for (const Piece& piece : pieces) {
      for (std::int64_t at = 0; piece.sends == sends && at < piece.bytes; at += kMessageBytes) {
        slots_.push_back(
            {this, piece.member, std::min(kMessageBytes, piece.bytes - at), nullptr, !sends});
        places.push_back(piece.at + at);
      }
    }
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) Post(slots_[i], places[i]);
}

// A send is complete once its memory may change, and a receive once its memory is filled. Messages
// of UCX may then still wait for room on their way, and this thread may not call for a long time:
// the peer would wait, and with it perhaps a call that this rank waits for.
void UcxWorker::Flush() {
  flushing_ = true;
  std::vector<bool> met(peers_.size());
  for (const Slot& slot : slots_) {
    const auto member = static_cast<std::size_t>(slot.member);
    if (met[member]) continue;
    met[member] = true;
    flushes_.push_back({this, slot.member});
  }
  for (Slot& slot : flushes_) {
    UcxRequestParams params;
    params.mask = UcxRequestParams::kCallback | UcxRequestParams::kUser;
    params.user = &slot;
    params.sent = &OnSent;
    ++pending_;
    slot.request =
        ucx_.ucp_ep_flush_nbx(peers_[static_cast<std::size_t>(slot.member)].endpoint, &params);
    if (slot.request == nullptr) Complete(slot, kUcxOk, 0);
    if (IsUcxError(slot.request)) Complete(slot, UcxErrorOf(slot.request), 0);
  }
}

TransportState UcxWorker::State() const {
  TransportState state{flushing_ && pending_ == 0, done_, std::max(trouble_with_, 0), trouble_};
  if (!trouble_.empty()) return state;
  for (const auto* slots : {&slots_, &flushes_}) {
    for (const Slot& slot : *slots) {
      if (slot.request != nullptr) state.member = slot.member;
    }
  }
  return state;
}

// Sleeps only after UCX has said that nothing is left to do, and wakes for its event.
TransportState UcxWorker::Advance(int ms) {
  const std::int64_t done = done_;
  const auto changed = [&] {
    if (pending_ == 0 && !flushing_ && trouble_.empty()) Flush();
    return pending_ == 0 || done_ != done || !trouble_.empty();
  };
  auto until = Clock::now() + kSpin;
  const auto spin = [&] {
    do {
      while (ucx_.ucp_worker_progress(worker_) != 0) until = Clock::now() + kSpin;
      if (changed()) return true;
    } while (Clock::now() < until);
    return false;
  };
  if (changed() || spin() || ms == 0) return State();
  if (ucx_.ucp_worker_arm(worker_) == kUcxOk) {
    pollfd event{event_, POLLIN, 0};
    static_cast<void>(poll(&event, 1, ms));
  }
  static_cast<void>(spin());
  return State();
}

// Cancels, ends the endpoints, and destroys the worker even if something is still in progress: then
// nothing touches the pieces' memory any more.
void UcxWorker::Close() {
  if (worker_ == nullptr) return;
  std::vector<void*> closing;
  for (Slot& slot : slots_) {
    if (slot.request != nullptr && slot.receives) ucx_.ucp_request_cancel(worker_, slot.request);
  }
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    UcxRequestParams params;
    params.mask = UcxRequestParams::kFlags;
    params.flags = UcxRequestParams::kForce;
    void* const request = ucx_.ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &params);
    if (request != nullptr && !IsUcxError(request)) closing.push_back(request);
  }
  const auto until = Clock::now() + kCancelWithin;
  const auto ends = [&](void* request) {
    return ucx_.ucp_request_check_status(request) != kUcxInProgress;
  };
  while ((pending_ > 0 || !std::all_of(closing.begin(), closing.end(), ends)) &&
         Clock::now() < until) {
    ucx_.ucp_worker_progress(worker_);
  }
  for (void* const request : closing) ucx_.ucp_request_free(request);
  ucx_.ucp_worker_destroy(std::exchange(worker_, nullptr));
}

}  // namespace foretrain
