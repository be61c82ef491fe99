// Moves bytes between processes over UCX: through shared memory on one machine, over TCP or RDMA
// between machines. UCX chooses for each peer among the transports that a context allows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/processes/peer_transport.h"
#include "runtime/ucx/ucx_library.h"

namespace foretrain {

// Owns a UCX context, which several threads' workers share.
class UcxContext {
 public:
  // The user's variables UCX_TLS and UCX_NET_DEVICES replace both arguments.
  //
  //   transports  names of UCX: "posix", shared memory alone, opens no port; "posix,tcp"
  //   device      network device of TCP, "eth0"; "" if there is none to choose
  //
  // Errors: kIo, with the library's text.
  static Result<std::unique_ptr<UcxContext>> Make(const UcxApi& ucx, const std::string& transports,
                                                  const std::string& device);
  ~UcxContext() { ucx_.ucp_cleanup(handle_); }
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  const UcxApi& ucx() const { return ucx_; }
  UcxContextHandle* handle() const { return handle_; }

 private:
  UcxContext(const UcxApi& ucx, UcxContextHandle* handle) : ucx_(ucx), handle_(handle) {}
  const UcxApi ucx_;
  UcxContextHandle* const handle_;
};

// The end of one member of a communicator.
class UcxWorker final : public PeerTransport {
 public:
  // `context` outlives it. Errors: kIo, with the library's text.
  static Result<std::unique_ptr<UcxWorker>> Make(const UcxContext& context, int member,
                                                 int members);
  ~UcxWorker() override { Close(); }
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // By which the others reach it: bytes that only UCX understands.
  const std::string& address() const { return address_; }
  // Once for each other member, before pieces move. Errors: kIo, the two processes have no
  // transport in common.
  Result<void> Connect(int member, const std::string& address);

  void Start(std::span<const Piece> pieces) override;
  TransportState Advance(int ms) override;
  void Close() override;

 private:
  struct Peer {
    UcxWorker* owner = nullptr;
    int member = 0;
    UcxEndpoint* endpoint = nullptr;
  };
  // One transfer in progress, or a flush of an endpoint.
  struct Slot {
    UcxWorker* owner = nullptr;
    int member = 0;
    std::int64_t bytes = 0;
    void* request = nullptr;  // null: complete
    bool receives = false;
    UcxReceived received{};
  };

  UcxWorker(const UcxApi& ucx, int member, int members)
      : ucx_(ucx), member_(member), peers_(static_cast<std::size_t>(members)) {}
  void Post(Slot& slot, char* at);
  void Flush();
  void Complete(Slot& slot, UcxStatus status, std::size_t came);
  void SetTrouble(int member, const std::string& why);
  TransportState State() const;
  static void OnSent(void* request, UcxStatus status, void* slot);
  static void OnReceived(void* request, UcxStatus status, const UcxReceived* received, void* slot);
  static void OnError(void* peer, UcxEndpoint* endpoint, UcxStatus status);

  const UcxApi& ucx_;
  const int member_;
  UcxWorkerHandle* worker_ = nullptr;
  int event_ = -1;  // descriptor that is readable when UCX has something to do; UCX owns it
  std::string address_;
  std::vector<Peer> peers_;  // by member; its own has no endpoint
  std::vector<Slot> slots_;  // of the pieces; does not move while any is in progress
  std::vector<Slot> flushes_;
  bool flushing_ = false;
  std::int64_t pending_ = 0;  // incomplete slots and flushes
  std::int64_t done_ = 0;
  int trouble_with_ = -1;
  std::string trouble_;
};

}  // namespace foretrain
