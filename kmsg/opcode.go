package kmsg

import "strconv"

// opName names an opcode as Lustre does (lustre/ptlrpc/lproc_ptlrpc.c,
// ll_rpc_opcode_table), "o63" one that is not known here.
func opName(op uint64) string {
	first := uint64(0)
	var names []string
	switch {
	case op < 25:
		names = ostNames[:]
	case op >= 33 && op < 64:
		first, names = 33, mdsNames[:]
	case op >= 101 && op < 108:
		first, names = 101, ldlmNames[:]
	case op >= 250 && op < 257:
		first, names = 250, mgsNames[:]
	case op == 400:
		return "obd_ping"
	}
	if i := op - first; i < uint64(len(names)) && names[i] != "" {
		return names[i]
	}
	return "o" + strconv.FormatUint(op, 10)
}

var (
	ostNames = [...]string{
		"ost_reply", "ost_getattr", "ost_setattr", "ost_read", "ost_write", "ost_create", "ost_destroy", "ost_get_info", "ost_connect", "ost_disconnect",
		"ost_punch", "ost_open", "ost_close", "ost_statfs", 16: "ost_sync", "ost_set_info", "ost_quotacheck", "ost_quotactl", "ost_quota_adjust_qunit",
		"ost_ladvise", "ost_fallocate", "ost_seek",
	}
	mdsNames = [...]string{
		"mds_getattr", "mds_getattr_lock", "mds_close", "mds_reint", "mds_readpage", "mds_connect", "mds_disconnect", "mds_get_root", "mds_statfs",
		"mds_pin", "mds_unpin", "mds_sync", "mds_done_writing", "mds_set_info", "mds_quotacheck", "mds_quotactl", "mds_getxattr", "mds_setxattr",
		"mds_writepage", "mds_is_subdir", "mds_get_info", "mds_hsm_state_get", "mds_hsm_state_set", "mds_hsm_action", "mds_hsm_progress",
		"mds_hsm_request", "mds_hsm_ct_register", "mds_hsm_ct_unregister", "mds_swap_layouts",
	}
	ldlmNames = [...]string{"ldlm_enqueue", "ldlm_convert", "ldlm_cancel", "ldlm_bl_callback", "ldlm_cp_callback", "ldlm_gl_callback", "ldlm_set_info"}
	mgsNames  = [...]string{"mgs_connect", "mgs_disconnect", "mgs_exception", "mgs_target_reg", "mgs_target_del", "mgs_set_info", "mgs_config_read"}
)
