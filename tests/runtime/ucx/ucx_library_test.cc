// The declarations of runtime/ucx/ucx_library.h against UCX's own header, if it is installed.
#include "runtime/ucx/ucx_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>

#include <type_traits>

// Here, because a comparison with an enumerator of ours draws a warning of GCC 12.
constexpr int kStatuses[] = {UCS_OK, UCS_INPROGRESS, UCS_ERR_MESSAGE_TRUNCATED, UCS_ERR_LAST};
#endif

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(UcxLibrary, NamesTheFileThatIsMissing) {
  const auto missing = LoadUcx("/no/such/libucp.so.0");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such/libucp.so.0"));
}

// libc is a library without any of the functions.
TEST(UcxLibrary, NamesTheFunctionThatIsMissing) {
  const auto other = LoadUcx("libc.so.6");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, AllOf(HasSubstr("libc.so.6 has no function ucp_get_version"),
                                           HasSubstr("UCX 1.13 or later")));
}

#if __has_include(<ucp/api/ucp.h>)

static_assert(sizeof(UcxStatus) == sizeof(ucs_status_t));
static_assert(kUcxOk == kStatuses[0]);
static_assert(kUcxInProgress == kStatuses[1]);
static_assert(kUcxTruncated == kStatuses[2]);
static_assert(kUcxLast == kStatuses[3]);

static_assert(UcxParams::kFeatures == UCP_PARAM_FIELD_FEATURES);
static_assert(UcxParams::kMtWorkersShared == UCP_PARAM_FIELD_MT_WORKERS_SHARED);
static_assert(UcxParams::kTag == UCP_FEATURE_TAG);
static_assert(UcxParams::kWakeup == UCP_FEATURE_WAKEUP);
static_assert(offsetof(UcxParams, features) == offsetof(ucp_params_t, features));
static_assert(offsetof(UcxParams, mt_workers_shared) == offsetof(ucp_params_t, mt_workers_shared));

static_assert(UcxWorkerParams::kThreadMode == UCP_WORKER_PARAM_FIELD_THREAD_MODE);
static_assert(UcxWorkerParams::kSerialized == static_cast<int>(UCS_THREAD_MODE_SERIALIZED));
static_assert(offsetof(UcxWorkerParams, thread_mode) == offsetof(ucp_worker_params_t, thread_mode));

static_assert(UcxEndpointParams::kRemoteAddress == UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
static_assert(UcxEndpointParams::kErrorMode == UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
static_assert(UcxEndpointParams::kErrorHandler == UCP_EP_PARAM_FIELD_ERR_HANDLER);
static_assert(UcxEndpointParams::kPeerErrors == static_cast<int>(UCP_ERR_HANDLING_MODE_PEER));
static_assert(offsetof(UcxEndpointParams, address) == offsetof(ucp_ep_params_t, address));
static_assert(offsetof(UcxEndpointParams, error_mode) == offsetof(ucp_ep_params_t, err_mode));
static_assert(offsetof(UcxEndpointParams, on_error) == offsetof(ucp_ep_params_t, err_handler.cb));
static_assert(offsetof(UcxEndpointParams, user) == offsetof(ucp_ep_params_t, err_handler.arg));

static_assert(sizeof(UcxReceived) == sizeof(ucp_tag_recv_info_t));
static_assert(offsetof(UcxReceived, bytes) == offsetof(ucp_tag_recv_info_t, length));

static_assert(UcxRequestParams::kCallback == UCP_OP_ATTR_FIELD_CALLBACK);
static_assert(UcxRequestParams::kUser == UCP_OP_ATTR_FIELD_USER_DATA);
static_assert(UcxRequestParams::kFlags == UCP_OP_ATTR_FIELD_FLAGS);
static_assert(UcxRequestParams::kReceived == UCP_OP_ATTR_FIELD_RECV_INFO);
static_assert(UcxRequestParams::kForce == UCP_EP_CLOSE_FLAG_FORCE);
static_assert(offsetof(UcxRequestParams, flags) == offsetof(ucp_request_param_t, flags));
static_assert(offsetof(UcxRequestParams, sent) == offsetof(ucp_request_param_t, cb.send));
static_assert(offsetof(UcxRequestParams, received) == offsetof(ucp_request_param_t, cb.recv));
static_assert(offsetof(UcxRequestParams, user) == offsetof(ucp_request_param_t, user_data));
static_assert(offsetof(UcxRequestParams, received_at_once) ==
              offsetof(ucp_request_param_t, recv_info.tag_info));

// True if the two functions take as many arguments of the same sizes and give a result of one size.
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class A, class... As, class B, class... Bs>
struct SameCall<A (*)(As...), B (*)(Bs...)> : std::bool_constant<sizeof...(As) == sizeof...(Bs)> {
  static constexpr bool SameSizes() {
    if constexpr (sizeof...(As) != sizeof...(Bs)) {
      return false;
    } else if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
      return std::is_void_v<A> == std::is_void_v<B> && ((sizeof(As) == sizeof(Bs)) && ...);
    } else {
      return sizeof(A) == sizeof(B) && ((sizeof(As) == sizeof(Bs)) && ...);
    }
  }
};

#define FT_EXPECT_SAME(name) \
  static_assert(SameCall<decltype(UcxApi::name), decltype(&::name)>::SameSizes())

FT_EXPECT_SAME(ucp_get_version);
FT_EXPECT_SAME(ucp_config_read);
FT_EXPECT_SAME(ucp_config_modify);
FT_EXPECT_SAME(ucp_config_release);
FT_EXPECT_SAME(ucp_init_version);
FT_EXPECT_SAME(ucp_cleanup);
FT_EXPECT_SAME(ucp_worker_create);
FT_EXPECT_SAME(ucp_worker_destroy);
FT_EXPECT_SAME(ucp_worker_get_address);
FT_EXPECT_SAME(ucp_worker_release_address);
FT_EXPECT_SAME(ucp_worker_get_efd);
FT_EXPECT_SAME(ucp_worker_progress);
FT_EXPECT_SAME(ucp_worker_arm);
FT_EXPECT_SAME(ucp_ep_create);
FT_EXPECT_SAME(ucp_ep_close_nbx);
FT_EXPECT_SAME(ucp_ep_flush_nbx);
FT_EXPECT_SAME(ucp_tag_send_nbx);
FT_EXPECT_SAME(ucp_tag_recv_nbx);
FT_EXPECT_SAME(ucp_request_cancel);
FT_EXPECT_SAME(ucp_request_check_status);
FT_EXPECT_SAME(ucp_request_free);
FT_EXPECT_SAME(ucs_status_string);
#undef FT_EXPECT_SAME

TEST(UcxLibrary, LoadsAtLeastTheVersionThatIsAskedFor) {
  const auto ucx = LoadUcx();
  ASSERT_TRUE(ucx.has_value()) << ucx.error().message;
  EXPECT_THAT(UcxVersionText(*ucx), testing::StartsWith("1."));
  EXPECT_EQ(ucx->ucs_status_string(kUcxOk), std::string("Success"));
}

#endif

}  // namespace
}  // namespace foretrain
