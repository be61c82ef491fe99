# One library a source folder.

# ft_folder(NAME [LINK target...] [PRIVATE target...])
# Defines foretrain_NAME (alias foretrain::NAME) from all .cc files below the current folder but those under */cuda/, which
# belong to the plugin, and main.cc. LINK: folders of ours it may include. PRIVATE: third-party targets of its sources.
# The folder's .csv and .json files are embedded. A folder without sources is an INTERFACE library.
function(ft_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK;PRIVATE")
  set(target foretrain_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
  file(GLOB_RECURSE data CONFIGURE_DEPENDS *.csv *.json)
  # Below the current folder: the checkout itself may lie in a folder of that name.
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?(cuda/.*|main\\.cc)$")
  list(FILTER headers EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?cuda/")
  if(sources OR data)
    add_library(${target} STATIC ${sources} ${headers})
    target_link_libraries(${target} PUBLIC foretrain_options ${arg_LINK} PRIVATE ${arg_PRIVATE})
    ft_embed(${target} ${data})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE foretrain_options ${arg_LINK})
  endif()
  add_library(foretrain::${name} ALIAS ${target})
endfunction()

# ft_define(NAME macro=value...): a definition that foretrain_NAME and all who link it see.
function(ft_define name)
  get_target_property(type foretrain_${name} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_compile_definitions(foretrain_${name} INTERFACE ${ARGN})
  else()
    target_compile_definitions(foretrain_${name} PUBLIC ${ARGN})
  endif()
endfunction()

# For sources whose own speed does not matter: a third less time to compile them.
function(ft_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
endfunction()
