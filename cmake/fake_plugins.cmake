file(STRINGS ${CMAKE_SOURCE_DIR}/base/device_api.h version REGEX "FT_DEVICE_API_VERSION = ")
string(REGEX REPLACE ".*= ([0-9]+).*" "\\1" version "${version}")
foreach(plugin "good ${version} 3" "empty ${version} 0" "old 1 3" "other -1 0")
  separate_arguments(plugin)
  list(GET plugin 0 name)
  list(GET plugin 1 fake_version)
  list(GET plugin 2 devices)
  add_library(fake_${name} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_plugin.cc)
  target_link_libraries(fake_${name} PRIVATE foretrain_options)
  target_compile_definitions(fake_${name} PRIVATE FAKE_VERSION=${fake_version} FAKE_DEVICES=${devices})
  set_target_properties(fake_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
  add_dependencies(foretrain_test_paths fake_${name})
endforeach()
# Fake driver libraries that tests load: source, name, definition.
foreach(library "nvml pair FAKE_LINKS=1" "nvml switches FAKE_LINKS=2" "nvml stopped FAKE_LINKS=0"
                "driver one FAKE_GPUS=1" "driver two FAKE_GPUS=2" "driver stopped FAKE_GPUS=0")
  separate_arguments(library)
  list(GET library 0 source)
  list(GET library 1 name)
  list(GET library 2 definition)
  set(target fake_${source}_${name})
  add_library(${target} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_${source}.cc)
  target_link_libraries(${target} PRIVATE foretrain_options)
  target_compile_definitions(${target} PRIVATE ${definition})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
  add_dependencies(foretrain_test_paths ${target})
endforeach()

# A limit of threads for programs that tests start.
add_library(fake_few_threads MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugins/few_threads.cc)
target_link_libraries(fake_few_threads PRIVATE foretrain_options ${CMAKE_DL_LIBS})
set_target_properties(fake_few_threads PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
add_dependencies(foretrain_test_paths fake_few_threads)

# A fake libnccl.so.2 for tests of its callers.
add_library(fake_nccl MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_nccl.cc)
target_link_libraries(fake_nccl PRIVATE foretrain_options)
target_include_directories(fake_nccl PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/plugins)
set_target_properties(fake_nccl PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
add_dependencies(foretrain_test_paths fake_nccl)

# A fake libcudnn.so.9 for tests of its callers.
add_library(fake_cudnn MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_cudnn.cc)
target_link_libraries(fake_cudnn PRIVATE foretrain_options foretrain_base)
set_target_properties(fake_cudnn PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
add_dependencies(foretrain_test_paths fake_cudnn)

# A fake libcupti for tests of its callers.
if(FORETRAIN_HAVE_CUPTI)
  add_library(fake_cupti MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_cupti.cc
    ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_pm_sampling.cc ${CMAKE_CURRENT_SOURCE_DIR}/plugins/fake_profiler_host.cc)
  target_link_libraries(fake_cupti PRIVATE foretrain_options foretrain_base)
  target_include_directories(fake_cupti SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${FORETRAIN_CUPTI_INCLUDE})
  set_target_properties(fake_cupti PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
  add_dependencies(foretrain_test_paths fake_cupti)
endif()
